// Put in front of libc (LD_PRELOAD): makes the n-th system call that touches a checkpoint or a
// packed file fail, or ends the process right before it, or asks it to end.
// LATHE_SAVE_FAULT=kill:3, term:3, ENOSPC:1, EIO:2, EINTR:1, SHORT:1, STAT:1
//   kill, term, ENOSPC, EIO   count open-for-writing, write, fsync, close, rename, unlink, fchmod;
//                             an error comes from open, write, fsync and rename
//   EINTR, SHORT              count write alone: interrupted before a byte is written; or one is
//   STAT                      counts stat and lstat alone, and all from the n-th on fail with EIO
// LATHE_SAVE_FAULT=HUP: takes SIGHUP when it is loaded, as UCX does, and makes nothing of it.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../interpose.h"

using lathe::test::creation_mode, lathe::test::next;

namespace {

int g_calls = 0, g_at = 0;
const char* g_kind = "";
int g_descriptor = -1, g_directory = -1;  // the temporary file; its directory, to be synced

__attribute__((constructor)) void read_fault() {
  const char* text = std::getenv("LATHE_SAVE_FAULT");
  if (text != nullptr && std::strcmp(text, "HUP") == 0) std::signal(SIGHUP, [](int) {});
  const char* colon = text ? std::strchr(text, ':') : nullptr;
  if (colon == nullptr) return;
  g_kind = strndup(text, static_cast<size_t>(colon - text));
  g_at = std::atoi(colon + 1);
}

__attribute__((destructor)) void report() {
  if (g_at > g_calls) std::fprintf(stderr, "no such call\n");
}

bool is(const char* kind) { return std::strcmp(g_kind, kind) == 0; }
bool is_ours(const char* path) {
  return std::strstr(path, ".safetensors") != nullptr || std::strstr(path, ".pack") != nullptr;
}

/// This is the call. Does not return if it is to be the last one.
bool hit(bool is_write) {
  if (is("STAT") || ((is("EINTR") || is("SHORT")) && !is_write)) return false;
  if (++g_calls != g_at) return false;
  if (is("kill")) std::raise(SIGKILL);
  if (is("term")) std::raise(SIGTERM);
  return !is("term");
}

/// Of a call that only looks at the file.
bool looks_in_vain(const char* path) {
  if (!is("STAT") || !is_ours(path) || ++g_calls < g_at) return false;
  errno = EIO;
  return true;
}

bool fails() {
  errno = is("ENOSPC") ? ENOSPC : is("EIO") ? EIO : EINTR;
  return true;
}

}  // namespace

#pragma GCC visibility push(default)  // the loader must find them before libc's
extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const mode_t mode = creation_mode(flags, rest);
  va_end(rest);
  const bool writes = (flags & O_WRONLY) != 0 && is_ours(path);
  const bool directory = (flags & O_DIRECTORY) != 0 && g_descriptor >= 0;
  if ((writes || directory) && hit(false) && fails()) return -1;
  const int descriptor = next<int (*)(const char*, int, ...)>("open")(path, flags, mode);
  if (writes) g_descriptor = descriptor;
  if (directory) g_directory = descriptor;
  return descriptor;
}

ssize_t write(int descriptor, const void* data, size_t bytes) {
  const auto real = next<ssize_t (*)(int, const void*, size_t)>("write");
  if (descriptor == g_descriptor && hit(true)) {
    if (is("SHORT")) return real(descriptor, data, 1);
    if (fails()) return -1;
  }
  return real(descriptor, data, bytes);
}

int fsync(int descriptor) {
  if ((descriptor == g_descriptor || descriptor == g_directory) && hit(false) && fails()) return -1;
  return next<int (*)(int)>("fsync")(descriptor);
}

int fchmod(int descriptor, mode_t mode) noexcept {
  if (descriptor == g_descriptor) hit(false);
  return next<int (*)(int, mode_t)>("fchmod")(descriptor, mode);
}

int close(int descriptor) {
  if (descriptor == g_descriptor) {
    hit(false);
    g_descriptor = -1;
  }
  if (descriptor == g_directory) {
    hit(false);
    g_directory = -1;
  }
  return next<int (*)(int)>("close")(descriptor);
}

int stat(const char* path, struct stat* info) noexcept {
  if (looks_in_vain(path)) return -1;
  return next<int (*)(const char*, struct stat*)>("stat")(path, info);
}

int lstat(const char* path, struct stat* info) noexcept {
  if (looks_in_vain(path)) return -1;
  return next<int (*)(const char*, struct stat*)>("lstat")(path, info);
}

int rename(const char* from, const char* to) noexcept {
  if (is_ours(to) && hit(false) && fails()) return -1;
  return next<int (*)(const char*, const char*)>("rename")(from, to);
}

int unlink(const char* path) noexcept {
  if (is_ours(path)) hit(false);
  return next<int (*)(const char*)>("unlink")(path);
}
}
