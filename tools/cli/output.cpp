#include "lathe/tools/cli/output.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>

#include <fmt/format.h>

#include "lathe/core/error.h"
#include "lathe/tools/cli/exit_codes.h"

namespace lathe::cli {

void prepare_standard_streams() {
  std::signal(SIGPIPE, SIG_IGN);
  for (const int descriptor : {0, 1, 2}) {
    if (fcntl(descriptor, F_GETFD) != -1 || errno != EBADF) continue;
    // The lowest free descriptor is this one. Read-only, so that writing to it still fails.
    if (open("/dev/null", O_RDONLY) != descriptor) std::_Exit(static_cast<int>(ExitCode::kError));
  }
}

void write_all(int descriptor, std::string_view text, std::string_view what) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const bool closed = errno == EPIPE || errno == EBADF;
      throw CommandError(ExitCode::kError,
                         fmt::format("{}: {}", what, closed ? "closed" : std::strerror(errno)));
    }
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void write_stderr(std::string_view text) noexcept {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

void Output::text(std::string_view line) const {
  if (!json_) write_all(STDOUT_FILENO, fmt::format("{}\n", line), "stdout");
}

void Output::row(const Row& row) const {
  if (json_) write_all(STDOUT_FILENO, to_json(row) + "\n", "stdout");
}

Log::~Log() {
  if (file_) std::fclose(file_);
}

void Log::open(const std::filesystem::path& path) {
  file_ = std::fopen(path.c_str(), "ae");
  LATHE_CHECK(FileError, file_, path.string(), ": cannot write the log: ", std::strerror(errno));
}

void Log::line(std::string_view text) {
  write_file(text);
  if (quiet_) return;
  if (before_line_) before_line_();
  write_stderr(fmt::format("{}\n", text));
}

void Log::warning(std::string_view text) {
  write_file(fmt::format("warning: {}", text));
  if (before_line_) before_line_();
  write_stderr(fmt::format("warning: {}\n", text));
}

// A log that cannot be written is no reason to lose the training: metrics and weights say so
// themselves.
void Log::write_file(std::string_view text) {
  if (!file_) return;
  char stamp[32];
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  std::strftime(stamp, sizeof stamp, "%F %T", localtime_r(&now, &local));
  std::fprintf(file_, "%s %.*s\n", stamp, static_cast<int>(text.size()), text.data());
  std::fflush(file_);
}

}  // namespace lathe::cli
