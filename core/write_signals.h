// Signals that the system sends with a failing write, kept from ending the process. Internal.
#pragma once

#include <csignal>

namespace lathe {

/// While it lives, a write of this thread that goes over the limit on file sizes (`ulimit -f`) or
/// to a connection whose other end is closed fails with EFBIG or EPIPE; otherwise SIGXFSZ or
/// SIGPIPE would end the process first. What the process has arranged for these signals, and what
/// other threads do, stays as it is.
class WriteSignals {
 public:
  WriteSignals() noexcept;
  ~WriteSignals();  // errno is the same after it
  WriteSignals(const WriteSignals&) = delete;
  WriteSignals& operator=(const WriteSignals&) = delete;

 private:
  sigset_t ours_, before_;  // those that were not waiting already; this thread's mask
};

}  // namespace lathe
