#include "lathe/core/write_signals.h"

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

// The system sends both to the thread that writes, so they are taken here and by nobody else.
WriteSignals::~WriteSignals() {
  const int reason = errno;
  constexpr timespec kNow = {};
  while (sigtimedwait(&ours_, nullptr, &kNow) > 0 || errno == EINTR) {
  }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  errno = reason;
}

}  // namespace lathe
