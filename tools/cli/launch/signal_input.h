// SignalInput: signals that arrive as something to read instead of interrupting.
#pragma once

#include <csignal>

#include <chrono>

namespace lathe::cli {

/// While a SignalInput exists, SIGCHLD, SIGINT, SIGTERM, SIGHUP and SIGUSR1 stay pending until they
/// are read through it. A signal that was ignored when this process started (nohup, a background
/// job) stays ignored. SIGCHLD is the exception: it is read even then, because it says that a child
/// has ended.
class SignalInput {
 public:
  SignalInput();
  ~SignalInput();
  SignalInput(const SignalInput&) = delete;
  SignalInput& operator=(const SignalInput&) = delete;

  /// A descriptor for poll(): readable when a signal has arrived.
  int descriptor() const { return descriptor_; }
  /// The next signal that has arrived, or 0.
  int next() const;
  /// Waits until the time `then`, or until a signal asks the process to stop.
  /// → SIGINT, SIGQUIT, SIGTERM, SIGHUP, or 0 if none came
  int wait_until(std::chrono::steady_clock::time_point then) const;

 private:
  sigset_t before_;
  int descriptor_ = -1;
};

}  // namespace lathe::cli
