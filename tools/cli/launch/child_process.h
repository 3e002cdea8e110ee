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
  /// What a shell would say: the code, or 128 + the signal.
  int exit_code() const { return signal != 0 ? 128 + signal : code; }
  /// "ended with exit code 3", "was ended by signal 9 (Killed)".
  std::string text() const;
};

/// The program runs in a process group of its own, so that Ctrl-C reaches it through this process
/// alone. Its stdin is empty. Signals do in it what they do by default, but SIGHUP, SIGINT, SIGQUIT
/// and SIGUSR1 stay ignored where this process ignores them: it was started so (nohup, a job in the
/// background).
class ChildProcess {
 public:
  /// `arguments[0]` is looked for on PATH unless it has a slash. `variables` come before those of
  /// this process. It gets SIGTERM when this process ends without having ended it.
  /// throws: UsageError if the program cannot be started; CommandError (kError) if there are no
  /// more processes or descriptors.
  ChildProcess(const std::vector<std::string>& arguments,
               const std::vector<std::pair<std::string, std::string>>& variables);
  /// Kills the process group if it still runs.
  ~ChildProcess();
  ChildProcess(ChildProcess&& other) noexcept { *this = std::move(other); }
  ChildProcess& operator=(ChildProcess&& other) noexcept;

  pid_t pid() const { return pid_; }
  /// The ends to read, which never wait; -1 once closed.
  int standard_output() const { return pipes_[0]; }
  int standard_error() const { return pipes_[1]; }
  void close_output(int descriptor);

  bool running() const { return running_; }
  /// To the process alone.
  void signal(int number) const;
  /// To the process and all that it started.
  void signal_all(int number) const;
  /// Looks whether it has ended since. → running()
  bool look();
  /// Of a process that runs no more.
  const ProcessEnd& end() const { return end_; }

 private:
  pid_t pid_ = -1;
  int pipes_[2] = {-1, -1};
  bool running_ = false;
  ProcessEnd end_;
};

}  // namespace lathe::cli
