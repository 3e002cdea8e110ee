// SignalInput: a signal mask and its signalfd. Contract: signal_input.h.
#include "lathe/tools/cli/launch/signal_input.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

namespace lathe::cli {

// Linux queues a signal that is blocked even if it is ignored, so an ignored one is not blocked.
SignalInput::SignalInput() {
  std::signal(SIGCHLD, SIG_DFL);
  sigset_t wanted;
  sigemptyset(&wanted);
  for (const int number : {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1}) {
    struct sigaction now {};
    if (sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN) continue;
    sigaddset(&wanted, number);
  }
  sigprocmask(SIG_BLOCK, &wanted, &before_);
  descriptor_ = signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK);
}

SignalInput::~SignalInput() {
  if (descriptor_ >= 0) ::close(descriptor_);
  sigprocmask(SIG_SETMASK, &before_, nullptr);
}

int SignalInput::next() const {
  signalfd_siginfo info;
  return ::read(descriptor_, &info, sizeof info) == sizeof info ? static_cast<int>(info.ssi_signo)
                                                                : 0;
}

int SignalInput::wait_until(std::chrono::steady_clock::time_point then) const {
  using std::chrono::milliseconds;
  for (;;) {
    while (const int number = next()) {
      if (number != SIGCHLD && number != SIGUSR1) return number;
    }
    const int64_t left =
        std::chrono::ceil<milliseconds>(then - std::chrono::steady_clock::now()).count();
    if (left <= 0) return 0;
    pollfd entry = {descriptor_, POLLIN, 0};
    ::poll(&entry, 1, static_cast<int>(left));
  }
}

}  // namespace lathe::cli
