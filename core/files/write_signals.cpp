// Blocks the signals during a write, and takes those that came with it.
#include "lathe/core/files/write_signals.h"

#include <cerrno>
#include <ctime>
#include <initializer_list>

namespace lathe {

WriteSignals::WriteSignals() noexcept {
  sigset_t waiting;
  sigpending(&waiting);
  sigemptyset(&ours_);
  for (const int signal : {SIGXFSZ, SIGPIPE}) {
    if (sigismember(&waiting, signal) != 1) sigaddset(&ours_, signal);
  }
  pthread_sigmask(SIG_BLOCK, &ours_, &before_);
}

// The system sends both signals to the thread that writes, so this thread takes them back here.
WriteSignals::~WriteSignals() {
  const int reason = errno;
  constexpr timespec kNow = {};
  while (sigtimedwait(&ours_, nullptr, &kNow) > 0 || errno == EINTR) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = reason;
}

}  // namespace lathe
