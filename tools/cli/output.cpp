// Output, Log and the writing of descriptors: stdout, stderr and files that lines are appended to.
#include "lathe/tools/cli/output.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <new>

#include "lathe/core/error.h"
#include "lathe/core/file.h"
#include "lathe/core/printable.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/formatted.h"
#include "lathe/tools/cli/wrapping.h"

namespace lathe::cli {

void prepare_standard_streams() {
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  for (const int descriptor : {0, 1, 2}) {
    if (fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest free descriptor is this one. Opened so that reading stdin and writing to the
    // others still fail.
    const int flags = descriptor == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (open("/dev/null", flags) != descriptor) std::_Exit(static_cast<int>(ExitCode::kError));
  }
}

void write_all(int descriptor, std::string_view text, std::string_view what) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const bool closed = errno == EPIPE || errno == EBADF;
      throw CommandError(ExitCode::kError,
                         formatted("{}: {}", what, closed ? "closed" : std::strerror(errno)));
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
}

int open_to_append(const std::string& path) {
  // Without O_NONBLOCK, opening a pipe would wait for its reader; regular files ignore it.
  const int flags = O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK;
  const int descriptor = open(path.c_str(), flags, 0666);
  const bool is_pipe = descriptor < 0 && errno == ENXIO;  // a pipe without a reader
  LATHE_CHECK(FileError, descriptor >= 0 || is_pipe, path,
              ": cannot be opened: ", std::strerror(errno));
  struct stat info {};
  if (!is_pipe && fstat(descriptor, &info) == 0 && S_ISREG(info.st_mode)) return descriptor;
  if (!is_pipe) close(descriptor);
  LATHE_FAIL(FileError, path, ": not a regular file");
}

int64_t cut_lines(int descriptor, const std::string& path, int64_t lines) {
  const std::string text = read_file(path, INT64_MAX);
  size_t size = 0;
  int64_t left = 0;
  for (; left < lines; ++left) {
    const size_t newline = text.find('\n', size);
    if (newline == std::string::npos) break;
    size = newline + 1;
  }
  const bool cut = size == text.size() || ftruncate(descriptor, static_cast<off_t>(size)) == 0;
  LATHE_CHECK(FileError, cut, path, ": cannot be cut back: ", std::strerror(errno));
  return left;
}

void write_stderr(std::string_view text) noexcept {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void write_stderr_line(std::string_view line) noexcept try {
  write_stderr(wrapped(line, terminal_width(STDERR_FILENO)) + "\n");
} catch (const std::bad_alloc&) {
  write_stderr(line);
  write_stderr("\n");
}

void Output::sentence(std::string_view line) const {
  verbatim(wrapped(printable(line), terminal_width(STDOUT_FILENO)));
}

void Output::text(std::string_view lines) const {
  verbatim(wrapped_rows(printable_lines(lines), terminal_width(STDOUT_FILENO)));
}

void Output::verbatim(std::string_view lines) const {
  if (!json_ && !silent_)
    write_all(STDOUT_FILENO, formatted("{}\n", printable_lines(lines)), "stdout");
}

void Output::row(const Row& row) const {
  if (json_ && !silent_) write_all(STDOUT_FILENO, to_json(row) + "\n", "stdout");
}

Log::~Log() {
  write_what_waits();
  if (file_ >= 0) ::close(file_);
}

void Log::open(const std::filesystem::path& path) {
  const std::lock_guard lock(mutex_);
  file_ = open_to_append(path.string());
  cut_lines(file_, path.string(), INT64_MAX);
  write_what_waits();
}

void Log::line(std::string_view text) {
  say_choices();
  say(printable(text), !quiet_);
}

void Log::choice(std::string_view text) {
  const std::lock_guard lock(mutex_);
  choices_.push_back(printable(text));
}

void Log::say_choices() {
  std::vector<std::string> choices;
  {
    const std::lock_guard lock(mutex_);
    choices.swap(choices_);
  }
  for (const std::string& text : choices) say(text, !quiet_);
}

void Log::warning(std::string_view text) {
  say(formatted("warning: {}", printable(text)), !quiet_);
}

void Log::error(std::string_view text) { say(formatted("lathe: {}", printable(text)), true); }

void Log::say(const std::string& text, bool on_stderr) {
  write_file(text);
  if (!on_stderr) return;
  if (before_line_) before_line_();
  write_stderr_line(text);
}

void Log::write_file(std::string_view text) {
  constexpr size_t kMostWaiting = 1 << 20;
  const std::lock_guard lock(mutex_);
  if (waiting_.size() > kMostWaiting) return;
  char stamp[32];
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  std::strftime(stamp, sizeof stamp, "%F %T", localtime_r(&now, &local));
  waiting_ += formatted("{} {}\n", stamp, text);
  write_what_waits();
}

// A log that cannot be written does not end the training: errors of metrics and weights are
// reported by themselves. The rest is tried again with the next line and at the end.
void Log::write_what_waits() {
  while (file_ >= 0 && !waiting_.empty()) {
    const ssize_t written = write(file_, waiting_.data(), waiting_.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;
    waiting_.erase(0, static_cast<size_t>(written));
  }
}

}  // namespace lathe::cli
