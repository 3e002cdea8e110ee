// StopSignals: SIGINT (Ctrl-C), SIGTERM and SIGHUP as requests to stop, SIGUSR1 as one to save.
#pragma once

#include "lathe/core/config.h"

namespace lathe::train {

/// While it exists, SIGINT, SIGTERM and SIGHUP are requests to stop. Trainings stop after the
/// present step. After the first one the old handlers are back, so a second signal acts as if this
/// object did not exist. A signal that the process was started with ignored (nohup, a background
/// job) stays ignored.
class LATHE_API StopSignals {
 public:
  /// throws: StateError if there is one already.
  StopSignals();
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  /// The signal that asked to stop while one exists, or 0.
  static int asked() noexcept;
  /// From now on SIGUSR1 is a request to save, and no longer ends the process. Its handler stays.
  static void note_saves();
  /// Whether there was a SIGUSR1 since the last call.
  static bool take_save() noexcept;
};

}  // namespace lathe::train
