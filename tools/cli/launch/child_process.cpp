// ChildProcess: fork, exec and wait. Contract: child_process.h.
#include "lathe/tools/cli/launch/child_process.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>

#include "lathe/core/process_limits.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"

extern char** environ;

namespace lathe::cli {
namespace {

/// A pipe both of whose ends close when a program is executed.
struct Pipe {
  int read = -1, write = -1;

  Pipe() {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) {
      throw CommandError(ExitCode::kError, formatted("launch: no pipe: {}", std::strerror(errno)));
    }
    read = ends[0];
    write = ends[1];
  }
  ~Pipe() {
    close_read();
    close_write();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void close_read() { close_end(read); }
  void close_write() { close_end(write); }
  /// → the end to read, which is the caller's from now on
  int take_read() { return std::exchange(read, -1); }

 private:
  static void close_end(int& end) {
    if (end >= 0) ::close(std::exchange(end, -1));
  }
};

/// This process's environment with `variables` instead of those of the same names.
std::vector<std::string> environment_with(
    const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> out;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view entry(*at);
    const std::string_view name = entry.substr(0, entry.find('='));
    if (std::ranges::none_of(variables, [&](const auto& v) { return v.first == name; }))
      out.emplace_back(entry);
  }
  for (const auto& [name, value] : variables) out.push_back(formatted("{}={}", name, value));
  return out;
}

std::vector<char*> pointers_of(std::vector<std::string>& texts) {
  std::vector<char*> out;
  for (std::string& text : texts) out.push_back(text.data());
  out.push_back(nullptr);
  return out;
}

/// Whether it is one that a user ignores for a program and all that it starts. SIGTERM is not: by
/// it ranks are asked to end.
bool stays_ignored(int number) {
  if (number != SIGHUP && number != SIGINT && number != SIGQUIT && number != SIGUSR1) return false;
  struct sigaction now {};
  return ::sigaction(number, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}

/// Whether it is the program that cannot be executed; else the system has too little of something.
bool is_of_program(int cause) {
  return cause == ENOENT || cause == ENOTDIR || cause == EACCES || cause == EPERM ||
         cause == ENOEXEC || cause == ELOOP || cause == ENAMETOOLONG || cause == E2BIG;
}

/// In the child, between fork and exec: calls that are safe there, and no others.
[[noreturn]] void become(char** arguments, char** variables, pid_t parent, int out, int err,
                         int problem) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (::getppid() != parent) ::_exit(127);  // it ended before that took effect
  for (int number = 1; number < NSIG; ++number) {
    if (!stays_ignored(number)) ::signal(number, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  const int empty = ::open("/dev/null", O_RDONLY);
  if (empty >= 0 && ::dup2(empty, STDIN_FILENO) >= 0 && ::dup2(out, STDOUT_FILENO) >= 0 &&
      ::dup2(err, STDERR_FILENO) >= 0) {
    if (empty > STDERR_FILENO) ::close(empty);
    ::execvpe(arguments[0], arguments, variables);
  }
  const int cause = errno;
  [[maybe_unused]] const auto written = ::write(problem, &cause, sizeof cause);
  ::_exit(127);
}

}  // namespace

std::string ProcessEnd::text() const {
  if (signal == 0) return formatted("ended with exit code {}", code);
  return formatted("was ended by signal {} ({})", signal, ::strsignal(signal));
}

ChildProcess::ChildProcess(const std::vector<std::string>& arguments,
                           const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> words = arguments, all = environment_with(variables);
  std::vector<char*> argv = pointers_of(words), envp = pointers_of(all);
  Pipe out, err, problem;
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ < 0) {
    const std::string cause = std::strerror(errno);  // EAGAIN most often: a limit on tasks
    throw CommandError(ExitCode::kError, formatted("launch: cannot start a process: {}; limits: {}",
                                                   cause, thread_limits_text()));
  }
  if (pid_ == 0) become(argv.data(), envp.data(), parent, out.write, err.write, problem.write);
  ::setpgid(pid_, pid_);  // here, too: a signal may be sent before the child has got that far
  problem.close_write();
  int cause = 0;
  ssize_t count = 0;
  do {
    count = ::read(problem.read, &cause, sizeof cause);
  } while (count < 0 && errno == EINTR);
  if (count == sizeof cause) {
    ::waitpid(pid_, nullptr, 0);
    throw CommandError(
        is_of_program(cause) ? ExitCode::kUsage : ExitCode::kError,
        formatted("launch: {} cannot be started: {}", arguments[0], std::strerror(cause)));
  }
  running_ = true;
  pipes_[0] = out.take_read();
  pipes_[1] = err.take_read();
  for (const int end : pipes_) ::fcntl(end, F_SETFL, O_NONBLOCK);
}

ChildProcess::~ChildProcess() {
  if (running_) {
    signal_all(SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  for (const int end : pipes_) {
    if (end >= 0) ::close(end);
  }
}

ChildProcess& ChildProcess::operator=(ChildProcess&& other) noexcept {
  std::swap(pid_, other.pid_);
  std::swap(pipes_, other.pipes_);
  std::swap(running_, other.running_);
  std::swap(end_, other.end_);
  return *this;
}

void ChildProcess::close_output(int descriptor) {
  for (int& end : pipes_) {
    if (end == descriptor && end >= 0) ::close(std::exchange(end, -1));
  }
}

void ChildProcess::signal(int number) const {
  if (running_) ::kill(pid_, number);
}

void ChildProcess::signal_all(int number) const {
  if (running_) ::kill(-pid_, number);
}

bool ChildProcess::look() {
  int status = 0;
  if (!running_ || ::waitpid(pid_, &status, WNOHANG) != pid_) return running_;
  ::kill(-pid_, SIGKILL);  // what it started and left behind
  running_ = false;
  end_ = {.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0,
          .signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0};
  return false;
}

}  // namespace lathe::cli
