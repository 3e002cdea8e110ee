// FileLock by flock(2): the system releases the lock when the process ends.
#include "lathe/core/files/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "lathe/core/error.h"
#include "lathe/core/log.h"

namespace lathe {

namespace {

int open_to_lock(const char* path) {
  const int file = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  return file < 0 && errno == EISDIR ? ::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : file;
}

}  // namespace

bool try_lock(int descriptor, const std::string& path) {
  while (::flock(descriptor, LOCK_EX | LOCK_NB) != 0) {
    const int reason = errno;
    if (reason == EINTR) continue;
    if (reason == EWOULDBLOCK) return false;
    const bool has_none = reason == ENOSYS || reason == ENOLCK || reason == EOPNOTSUPP;
    LATHE_CHECK(FileError, has_none, path,
                ": cannot lock: ", std::generic_category().message(reason));
    warn_once("file lock",
              concat(path, ": cannot be locked, because its file system has no locks (",
                     std::generic_category().message(reason),
                     "); see to it that no second process writes there"));
    break;
  }
  return true;
}

FileLock::FileLock(const std::string& path, int patience_ms)
    : descriptor_(open_to_lock(path.c_str())) {
  using Clock = std::chrono::steady_clock;
  LATHE_CHECK(FileError, descriptor_ >= 0, path,
              ": cannot lock: ", std::generic_category().message(errno));
  const auto end = Clock::now() + std::chrono::milliseconds(patience_ms);
  try {
    while (!try_lock(descriptor_, path)) {
      LATHE_CHECK(
          LockHeldError, Clock::now() < end, path, ": another process ",
          patience_ms > 0 ? concat("has held it for more than ", patience_ms, " ms") : "holds it");
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  } catch (...) {
    ::close(descriptor_);
    throw;
  }
}

FileLock::~FileLock() { ::close(descriptor_); }

}  // namespace lathe
