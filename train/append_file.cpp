// Opening, writing and cutting files that lines are appended to.
#include "lathe/train/append_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "lathe/core/error.h"
#include "lathe/core/files/file.h"

namespace lathe::train {

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

int open_new(const std::string& path) {
  const int descriptor =
      open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
  LATHE_CHECK(FileError, descriptor >= 0, path, ": cannot be made: ", std::strerror(errno));
  return descriptor;
}

void append_to(int descriptor, std::string_view text, const std::string& path) {
  while (!text.empty()) {
    const ssize_t written = write(descriptor, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    LATHE_CHECK(FileError, written >= 0, path, ": ", std::strerror(errno));
    text.remove_prefix(static_cast<size_t>(written));
  }
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

}  // namespace lathe::train
