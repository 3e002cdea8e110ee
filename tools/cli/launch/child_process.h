// ChildProcess: a program with pipes in place of its stdout and stderr.
#pragma once

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

namespace lathe::cli {

/// How a process ended: with an exit code, or by a signal.
struct ProcessEnd {
  int code = 0;
  int signal = 0;  // 0: it ended by itself

  bool good() const { return code == 0 && signal == 0; }
  /// The exit code as a shell would report it: the code, or 128 + the signal.
  int exit_code() const { return signal != 0 ? 128 + signal : code; }
  /// As the end of a sentence: "ended with exit code 3", "was ended by signal 9 (Killed)".
  std::string text() const;
};

/// A program that runs in a process group of its own, so that Ctrl-C reaches it only through this
/// process. The program's stdin is empty. The program starts with the default handling of signals,
/// with one exception: if SIGHUP, SIGINT, SIGQUIT or SIGUSR1 was ignored when this process started
/// (nohup, a background job), the program ignores it, too.
class ChildProcess {
 public:
  /// Starts the program. `arguments[0]` is searched on PATH unless it has a slash. `variables`
  /// replace the environment variables of this process that have the same names. The program gets
  /// SIGTERM if this process ends first.
  /// throws: UsageError if the program cannot be started; CommandError (kError) if there are no
  /// more processes or descriptors.
  ChildProcess(const std::vector<std::string>& arguments,
               const std::vector<std::pair<std::string, std::string>>& variables);
  /// Kills the process group if it still runs.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept { *this = std::move(other); }
  ChildProcess& operator=(ChildProcess&& other) noexcept;

  pid_t pid() const { return pid_; }
  /// The descriptors of the program's output, or -1 after close_output(). Reading from them never
  /// blocks.
  int standard_output() const { return pipes_[0]; }
  int standard_error() const { return pipes_[1]; }
  void close_output(int descriptor);

  bool running() const { return running_; }
  /// Sends a signal to the process alone.
  void signal(int number) const;
  /// Sends a signal to the process and to all processes that it started.
  void signal_all(int number) const;
  /// Checks whether the process has ended. → running()
  bool look();
  /// How the process ended. Call only after it has ended.
  const ProcessEnd& end() const { return end_; }

 private:
  pid_t pid_ = -1;
  int pipes_[2] = {-1, -1};
  bool running_ = false;
  ProcessEnd end_;
};

}  // namespace lathe::cli
