// OutputQueue: writes in pieces that do not wait. Contract: output_queue.h.
#include "lathe/tools/cli/launch/output_queue.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>

#include "lathe/core/text/formatted.h"

namespace lathe::cli {

void OutputQueue::add(std::string_view text) {
  if (closed_) return;
  text_ += text;
  write();
}

// A pipe that poll() calls ready takes PIPE_BUF bytes without waiting. It is not made non-blocking:
// that would hold for all processes that share it.
void OutputQueue::write() {
  while (waits()) {
    pollfd entry = {descriptor_, POLLOUT, 0};
    if (::poll(&entry, 1, 0) == 0) return;
    const size_t count = std::min<size_t>(text_.size() - written_, PIPE_BUF);
    const ssize_t written = ::write(descriptor_, text_.data() + written_, count);
    if (written >= 0) {
      written_ += static_cast<size_t>(written);
      if (written_ >= kMost) {  // a slow reader of many words may never have read all of them
        text_.erase(0, written_);
        written_ = 0;
      }
      continue;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return;
    const bool is_closed = errno == EPIPE || errno == EBADF;
    if (!name_.empty())
      problem_ = formatted("{}: {}", name_, is_closed ? "closed" : std::strerror(errno));
    return close();
  }
  text_.clear();
  written_ = 0;
}

void OutputQueue::close() {
  closed_ = true;
  text_.clear();
  written_ = 0;
}

}  // namespace lathe::cli
