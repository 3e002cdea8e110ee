// FileLock by flock(2): the system releases the lock when the process ends.
#include "lathe/core/file_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <system_error>
#include <thread>

#include "lathe/core/error.h"

namespace lathe {

namespace {

int open_to_lock(const char* path) {
  const int file = ::open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  return file < 0 && errno == EISDIR ? ::open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : file;
}

}  // namespace

FileLock::FileLock(const std::string& path, int patience_ms)
    : descriptor_(open_to_lock(path.c_str())) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::milliseconds(patience_ms);
  int reason = errno;
  while (descriptor_ >= 0) {
    if (::flock(descriptor_, LOCK_EX | LOCK_NB) == 0) return;
    reason = errno;
    if ((reason != EWOULDBLOCK && reason != EINTR) || Clock::now() >= end) {
      ::close(descriptor_);
      break;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  LATHE_CHECK(LockHeldError, descriptor_ < 0 || reason != EWOULDBLOCK, "file: another process ",
              patience_ms > 0 ? concat("has held ", path, " for more than ", patience_ms, " ms")
                              : concat("holds ", path));
  LATHE_FAIL(FileError, "file: cannot lock ", path, ": ", std::generic_category().message(reason));
}

FileLock::~FileLock() { ::close(descriptor_); }

}  // namespace lathe
