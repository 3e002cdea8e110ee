// Put in front of libc (LD_PRELOAD): names every call of a training that changes its run folder or
// writes to stdout, and interrupts the training at one of them. A call is named by the file and a
// number, "metrics.csv 4": the calls for one file come from one thread, so that this is the same
// call in every run; a temporary file is named after the file that it becomes.
// LATHE_RUN_FOLDER=run                as the command was given it
// LATHE_RUN_TRACE=FILE                gets a line per call: "metrics.csv 4 write"
// LATHE_RUN_FAULT="kill metrics.csv 4"
//   kill     the process ends right before the call
//   torn     the process ends when half of what is to be written is written
//   term     SIGTERM, and the call is made
//   EIO      the call fails, and none after it
//   ENOSPC   half is written; from then on nothing can be made or written, in the folder or, if
//   that
//            is where it began, on stdout
//   EPIPE    the call fails, and so does every later one on stdout
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "../interpose.h"

using lathe::test::creation_mode, lathe::test::next;

namespace {

constexpr char kStdout[] = "stdout";

struct State {
  std::recursive_mutex mutex;
  std::string folder, kind, file;  // the folder; the fault
  int at = 0;
  bool begun = false;  // the fault, if it is one that stays
  int trace = -1;
  std::map<std::string, int> calls;
  std::map<int, std::string> open_files;  // by descriptor
};

State& state() {
  static State* const made = [] {
    auto* s = new State;  // never destroyed: threads may still write at the end of the process
    if (const char* folder = std::getenv("LATHE_RUN_FOLDER")) s->folder = folder;
    std::array<char, 16> kind{};
    std::array<char, 200> file{};
    const char* fault = std::getenv("LATHE_RUN_FAULT");
    if (fault && std::sscanf(fault, "%15s %199s %d", kind.data(), file.data(), &s->at) == 3) {
      s->kind = kind.data();
      s->file = file.data();
    }
    s->open_files[STDOUT_FILENO] = kStdout;
    if (const char* path = std::getenv("LATHE_RUN_TRACE"))
      s->trace =
          next<int (*)(const char*, int, ...)>("open")(path, O_WRONLY | O_CREAT | O_APPEND, 0666);
    return s;
  }();
  return *made;
}

/// The file below the run folder that a path names, "." for the folder; "" for any other path.
std::string name_of(const std::string& path) {
  const std::string& folder = state().folder;
  if (folder.empty() || !path.starts_with(folder)) return "";
  const std::string rest = path.substr(folder.size());
  if (rest.find_first_not_of('/') == std::string::npos) return ".";
  if (rest[0] != '/') return "";
  return rest.substr(1, rest.find(".tmp") - 1);
}

enum class Call { kPasses, kFails, kHalf };  // kHalf: and fails after half of what is written

/// `can_fail`: as one that needs room on a disk does.
Call begin_call(const std::string& name, const char* call, bool can_fail, bool writes = false) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const int number = ++s.calls[name];
  if (s.trace >= 0) {
    const std::string line = name + " " + std::to_string(number) + " " + call + "\n";
    static_cast<void>(
        next<ssize_t (*)(int, const void*, size_t)>("write")(s.trace, line.data(), line.size()));
  }
  const bool stays = s.kind == "ENOSPC" || s.kind == "EPIPE";
  const bool is_it = name == s.file && number == s.at;
  const bool same_disk = (name == kStdout) == (s.file == kStdout);
  if (!is_it && !(stays && s.begun && same_disk)) return Call::kPasses;
  const bool first = !s.begun;
  s.begun = true;
  if (s.kind == "kill") std::raise(SIGKILL);
  if (s.kind == "term") std::raise(SIGTERM);
  if (s.kind == "torn") return Call::kHalf;
  if (!can_fail || s.kind == "term") return Call::kPasses;
  errno = s.kind == "ENOSPC" ? ENOSPC : s.kind == "EPIPE" ? EPIPE : EIO;
  return writes && first && s.kind == "ENOSPC" ? Call::kHalf : Call::kFails;
}

/// Of a call that names a file. Others pass.
bool fails(const char* path, const char* call, bool can_fail) {
  const std::string name = name_of(path);
  return !name.empty() && begin_call(name, call, can_fail) == Call::kFails;
}

std::string opened(int descriptor) {
  State& s = state();
  const std::lock_guard lock(s.mutex);
  const auto found = s.open_files.find(descriptor);
  return found == s.open_files.end() ? "" : found->second;
}

bool fails(int descriptor, const char* call, bool can_fail) {
  const std::string name = opened(descriptor);
  return !name.empty() && begin_call(name, call, can_fail) == Call::kFails;
}

}  // namespace

#pragma GCC visibility push(default)  // the loader must find them before libc's
extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = creation_mode(flags, rest);
  va_end(rest);
  const auto real = next<int (*)(const char*, int, ...)>("open");
  const bool writes = (flags & (O_WRONLY | O_RDWR | O_DIRECTORY)) != 0;
  const std::string name = writes ? name_of(path) : "";
  if (name.empty()) return real(path, flags, mode);
  if (begin_call(name, "open", (flags & O_CREAT) != 0) == Call::kFails) return -1;
  const int descriptor = real(path, flags, mode);
  const std::lock_guard lock(state().mutex);
  if (descriptor >= 0) state().open_files[descriptor] = name;
  return descriptor;
}

ssize_t write(int descriptor, const void* data, size_t bytes) {
  const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
  const std::string name = opened(descriptor);
  if (name.empty()) return real(descriptor, data, bytes);
  const Call call = begin_call(name, "write", true, true);
  if (call == Call::kFails) return -1;
  if (call == Call::kPasses) return real(descriptor, data, bytes);
  const ssize_t half = real(descriptor, data, bytes / 2);
  if (state().kind == "torn") std::raise(SIGKILL);
  return half;  // who goes on with the other half learns the cause
}

int fsync(int descriptor) {
  return fails(descriptor, "fsync", true) ? -1 : next<int (*)(int)>("fsync")(descriptor);
}

int ftruncate(int descriptor, off_t size) noexcept {
  if (fails(descriptor, "ftruncate", false)) return -1;
  return next<int (*)(int, off_t)>("ftruncate")(descriptor, size);
}

int close(int descriptor) {
  static_cast<void>(fails(descriptor, "close", false));
  {
    const std::lock_guard lock(state().mutex);
    state().open_files.erase(descriptor);
  }
  return next<int (*)(int)>("close")(descriptor);
}

int rename(const char* from, const char* to) noexcept {
  if (fails(to, "rename", true)) return -1;
  return next<int (*)(const char*, const char*)>("rename")(from, to);
}

int link(const char* from, const char* to) noexcept {
  if (fails(to, "link", true)) return -1;
  return next<int (*)(const char*, const char*)>("link")(from, to);
}

int mkdir(const char* path, mode_t mode) noexcept {
  if (fails(path, "mkdir", true)) return -1;
  return next<int (*)(const char*, mode_t)>("mkdir")(path, mode);
}

int unlink(const char* path) noexcept {
  static_cast<void>(fails(path, "unlink", false));
  return next<int (*)(const char*)>("unlink")(path);
}

int remove(const char* path) noexcept {
  static_cast<void>(fails(path, "remove", false));
  return next<int (*)(const char*)>("remove")(path);
}
}
