// WriteSignals: keeps signals that the system sends with a failing write from ending the process.
// Internal.
#pragma once

#include <csignal>

namespace lathe {

/// While it lives, a failing write of this thread returns an error instead of a signal: EFBIG, not
/// SIGXFSZ, beyond the limit on file sizes (`ulimit -f`); EPIPE, not SIGPIPE, on a connection whose
/// other end is closed. Without it these signals would end the process. The process's own handling
/// of these signals does not change, and other threads are not affected.
class WriteSignals {
 public:
  WriteSignals() noexcept;
  ~WriteSignals();  // leaves errno as it is
  WriteSignals(const WriteSignals&) = delete;
  WriteSignals& operator=(const WriteSignals&) = delete;

 private:
  sigset_t ours_, before_;  // the signals that were not pending before; this thread's mask
};

}  // namespace lathe
