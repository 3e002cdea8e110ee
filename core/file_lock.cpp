// FileLock by flock(2): the system lets go of it when the process ends. See file_lock.h.
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

FileLock::FileLock(const std::string& path, int patience_ms)
    : descriptor_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666)) {
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
  LATHE_CHECK(FileError, descriptor_ < 0 || reason != EWOULDBLOCK,
              "file: another process has held ", path, " for more than ", patience_ms, " ms");
  LATHE_FAIL(FileError, "file: cannot lock ", path, ": ", std::generic_category().message(reason));
}

FileLock::~FileLock() { ::close(descriptor_); }

}  // namespace lathe
