// StopSignals: SIGINT (Ctrl-C), SIGTERM and SIGHUP as requests to stop, SIGUSR1 as one to save.
#pragma once

#include "lathe/core/config.h"

namespace lathe::train {

/// While it exists, SIGINT, SIGTERM and SIGHUP are requests to stop. Trainings stop after the
/// present step. A second such signal does what it did before. A signal that the process was
/// started with ignored (nohup, a background job) stays ignored. Only one may exist at a time.
class LATHE_API StopSignals {
 public:
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that asked to stop, or 0. Stays until the next StopSignals.
  static int asked() noexcept;
  /// From now on SIGUSR1 is a request to save, and no longer ends the process.
  static void note_saves();
  /// Whether there was a SIGUSR1 since the last call.
  static bool take_save() noexcept;
};

}  // namespace lathe::train
