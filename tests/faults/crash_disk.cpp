#include "crash_disk.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <mutex>
#include <optional>
#include <string_view>

#include "../interpose.h"

namespace lathe::test {
namespace {

namespace fs = std::filesystem;

enum class Kind { kCreate, kWrite, kSyncFile, kRename, kUnlink, kSyncFolder };

/// A call that succeeded. Files are numbered, because names move.
struct Call {
  Kind kind;
  size_t file = 0;
  std::string name, other;  // kRename: from name to other
  std::string bytes;        // kWrite
};

struct File {
  std::string bytes;
  size_t synced = 0;  // bytes that the disk holds for certain
};

std::atomic<CrashDisk*> g_disk{nullptr};
// Held while another thread, such as a server's, tells the disk something, and while the disk goes.
std::mutex g_end;

/// The bytes of a file of which the disk holds the synced ones for certain.
std::string remains(const File& file, int choice) {
  const std::string synced = file.bytes.substr(0, file.synced);
  const size_t left = file.bytes.size() - file.synced;
  switch (choice) {
    case 0: return synced;
    case 1: return synced + file.bytes.substr(file.synced, left / 2);
    case 2: return synced + std::string(left, '\0');
    default: return file.bytes;
  }
}

}  // namespace

struct CrashDisk::Notes {
  fs::path folder;
  std::vector<File> files;              // at the start
  std::map<std::string, size_t> names;  // at the start
  mutable std::mutex mutex;             // guards what follows
  std::map<std::string, size_t> names_now;
  std::map<int, size_t> open_files;  // descriptor → file
  std::optional<int> open_folder;    // its descriptor
  size_t file_count = 0;
  std::vector<Call> calls;

  /// The name in the folder; empty for a path that leads elsewhere.
  std::string name_of(const char* path) const {
    const fs::path p(path);
    return p.parent_path() == folder ? p.filename().string() : std::string();
  }
};

CrashDisk::CrashDisk(const fs::path& folder) : notes_(std::make_unique<Notes>()) {
  notes_->folder = folder;
  for (const auto& entry : fs::directory_iterator(folder)) {
    std::ifstream stream(entry.path(), std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(stream), {}};
    notes_->names[entry.path().filename().string()] = notes_->files.size();
    const size_t size = bytes.size();
    notes_->files.push_back({std::move(bytes), size});
  }
  notes_->names_now = notes_->names;
  notes_->file_count = notes_->files.size();
  g_disk = this;
}

CrashDisk::~CrashDisk() {
  const std::lock_guard lock(g_end);
  g_disk = nullptr;
}

size_t CrashDisk::calls() const {
  const std::lock_guard lock(notes_->mutex);
  return notes_->calls.size();
}

std::vector<Folder> CrashDisk::after_crash(size_t count) const {
  const std::lock_guard lock(notes_->mutex);
  std::vector<File> files = notes_->files;
  files.resize(notes_->file_count);
  std::map<std::string, size_t> names = notes_->names;
  std::vector<const Call*> pending;  // of the names
  const auto apply = [](std::map<std::string, size_t>& to, const Call& call) {
    if (call.kind == Kind::kCreate) to[call.name] = call.file;
    if (call.kind == Kind::kRename) to[call.other] = call.file;
    if (call.kind != Kind::kCreate) to.erase(call.name);
  };
  for (size_t i = 0; i < count; ++i) {
    const Call& call = notes_->calls[i];
    switch (call.kind) {
      case Kind::kWrite: files[call.file].bytes += call.bytes; break;
      case Kind::kSyncFile: files[call.file].synced = files[call.file].bytes.size(); break;
      case Kind::kSyncFolder:
        for (const Call* p : pending) apply(names, *p);
        pending.clear();
        break;
      default: pending.push_back(&call);
    }
  }
  std::vector<Folder> out;
  for (size_t kept = 0; kept <= pending.size(); ++kept) {
    if (kept > 0) apply(names, *pending[kept - 1]);
    for (int choice = 0; choice < 4; ++choice) {
      Folder folder;
      for (const auto& [name, file] : names) folder[name] = remains(files[file], choice);
      out.push_back(std::move(folder));
    }
  }
  return out;
}

/// What the functions below tell the disk.
struct Interposed {
  template <class F>
  static void tell(F note) {
    if (g_disk == nullptr) return;
    const std::lock_guard alive(g_end);
    CrashDisk* const disk = g_disk;
    if (disk == nullptr) return;
    const std::lock_guard lock(disk->notes_->mutex);
    note(*disk->notes_);
  }

  static void opened(const char* path, int flags, int descriptor) {
    tell([&](CrashDisk::Notes& notes) {
      if ((flags & O_DIRECTORY) != 0 && fs::path(path) / "" == notes.folder / "")
        notes.open_folder = descriptor;
      const std::string name = notes.name_of(path);
      if (name.empty() || (flags & O_ACCMODE) == O_RDONLY) return;
      size_t file = notes.file_count;
      if ((flags & O_CREAT) != 0 && !notes.names_now.contains(name)) {
        ++notes.file_count;
        notes.names_now[name] = file;
        notes.calls.push_back({.kind = Kind::kCreate, .file = file, .name = name});
      } else {
        file = notes.names_now.at(name);  // appends: nothing else is known here
      }
      notes.open_files[descriptor] = file;
    });
  }

  static void wrote(int descriptor, const void* data, size_t bytes) {
    tell([&](CrashDisk::Notes& notes) {
      const auto found = notes.open_files.find(descriptor);
      if (found == notes.open_files.end()) return;
      notes.calls.push_back({.kind = Kind::kWrite,
                             .file = found->second,
                             .bytes = {static_cast<const char*>(data), bytes}});
    });
  }

  static void synced(int descriptor) {
    tell([&](CrashDisk::Notes& notes) {
      if (notes.open_folder == descriptor) notes.calls.push_back({.kind = Kind::kSyncFolder});
      const auto found = notes.open_files.find(descriptor);
      if (found == notes.open_files.end()) return;
      notes.calls.push_back({.kind = Kind::kSyncFile, .file = found->second});
    });
  }

  static void closed(int descriptor) {
    tell([&](CrashDisk::Notes& notes) {
      notes.open_files.erase(descriptor);
      if (notes.open_folder == descriptor) notes.open_folder.reset();
    });
  }

  static void renamed(const char* from, const char* to) {
    tell([&](CrashDisk::Notes& notes) {
      const std::string name = notes.name_of(from), other = notes.name_of(to);
      if (name.empty() || other.empty()) return;
      const size_t file = notes.names_now.at(name);
      notes.calls.push_back({.kind = Kind::kRename, .file = file, .name = name, .other = other});
      notes.names_now.erase(name);
      notes.names_now[other] = file;
    });
  }

  static void unlinked(const char* path) {
    tell([&](CrashDisk::Notes& notes) {
      const std::string name = notes.name_of(path);
      if (name.empty()) return;
      notes.calls.push_back({.kind = Kind::kUnlink, .name = name});
      notes.names_now.erase(name);
    });
  }
};

}  // namespace lathe::test

using lathe::test::creation_mode, lathe::test::Interposed, lathe::test::next;

#pragma GCC visibility push(default)  // the loader must find them before libc's
extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = creation_mode(flags, rest);
  va_end(rest);
  const int descriptor = next<int (*)(const char*, int, ...)>("open")(path, flags, mode);
  if (descriptor >= 0) Interposed::opened(path, flags, descriptor);
  return descriptor;
}

ssize_t write(int descriptor, const void* data, size_t bytes) {
  const ssize_t done =
      next<ssize_t (*)(int, const void*, size_t)>("write")(descriptor, data, bytes);
  if (done > 0) Interposed::wrote(descriptor, data, static_cast<size_t>(done));
  return done;
}

int fsync(int descriptor) {
  const int result = next<int (*)(int)>("fsync")(descriptor);
  if (result == 0) Interposed::synced(descriptor);
  return result;
}

int close(int descriptor) {
  Interposed::closed(descriptor);
  return next<int (*)(int)>("close")(descriptor);
}

int rename(const char* from, const char* to) noexcept {
  const int result = next<int (*)(const char*, const char*)>("rename")(from, to);
  if (result == 0) Interposed::renamed(from, to);
  return result;
}

int unlink(const char* path) noexcept {
  const int result = next<int (*)(const char*)>("unlink")(path);
  if (result == 0) Interposed::unlinked(path);
  return result;
}
}
#pragma GCC visibility pop
