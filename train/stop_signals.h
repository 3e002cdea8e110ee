// StopSignals: makes SIGINT (Ctrl-C), SIGTERM and SIGHUP requests to stop, and SIGUSR1 a request to
// save.
#pragma once

#include "lathe/core/config.h"

namespace lathe::train {

/// While a StopSignals exists, SIGINT, SIGTERM and SIGHUP ask trainings to stop after the present
/// step. The first signal restores the old handlers, so a second signal acts as without a
/// StopSignals. Signals that were ignored when the process started (nohup, a background job) stay
/// ignored.
class LATHE_API StopSignals {
 public:
  /// throws: StateError if another StopSignals exists.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that asked to stop while a StopSignals exists, or 0.
  static int asked() noexcept;
  /// Makes SIGUSR1 a request to save, for the rest of the process. SIGUSR1 then no longer ends the
  /// process.
  static void note_saves();
  /// True if a SIGUSR1 came since the last call.
  static bool take_save() noexcept;
};

}  // namespace lathe::train
