// Output and Log: stdout, stderr and the log file.
#include "lathe/tools/cli/output.h"
#include "lathe/core/text/terminal.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <new>

#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/printable.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/wrapping.h"
#include "lathe/tools/cli/exit_codes.h"

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
      const char* const cause = errno == EPIPE   ? "closed by its reader, as `| head` does"
                                : errno == EBADF ? "closed"
                                                 : std::strerror(errno);
      throw CommandError(ExitCode::kError, formatted("{}: {}", what, cause));
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
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
  file_.add(text);
  if (!on_stderr) return;
  if (before_line_) before_line_();
  write_stderr_line(text);
}

}  // namespace lathe::cli
