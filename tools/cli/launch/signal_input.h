// SignalInput: signals that arrive as something to read instead of interrupting.
#pragma once

#include <csignal>

#include <chrono>

namespace lathe::cli {

/// While it exists, the end of a child, SIGINT, SIGTERM, SIGHUP and SIGUSR1 wait until they are
/// read here. A signal that this process was started with ignored (nohup, a background job) stays
/// ignored, but for SIGCHLD: with that one ignored no child's end could be seen.
class SignalInput {
 public:
  SignalInput();
  ~SignalInput();
  SignalInput(const SignalInput&) = delete;
  SignalInput& operator=(const SignalInput&) = delete;

  /// Can be read when a signal has arrived.
  int descriptor() const { return descriptor_; }
  /// The next one that has arrived, or 0.
  int next() const;
  /// Waits until then, or until a request to stop. → SIGINT, SIGQUIT, SIGTERM, SIGHUP or 0
  int wait_until(std::chrono::steady_clock::time_point then) const;

 private:
  sigset_t before_;
  int descriptor_ = -1;
};

}  // namespace lathe::cli
