// The width of a terminal, and stderr.
#include "lathe/core/text/terminal.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdio>
#include <new>
#include <string>

#include "lathe/core/text/wrapping.h"

namespace lathe {

int terminal_width(int descriptor) noexcept {
  winsize size{};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
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

}  // namespace lathe
