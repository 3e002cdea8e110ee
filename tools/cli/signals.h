// Ctrl-C, SIGTERM and SIGHUP: the first one asks to stop after the step, the second stops at once.
// Where nobody asks for them they end the process, without its temporary files.
// SIGUSR1 asks to save after the step and to go on.
#pragma once

#include "lathe/tools/cli/exit_codes.h"

namespace lathe::cli {

/// While it exists, SIGINT, SIGTERM, SIGHUP and SIGQUIT remove the temporary files of this process
/// (core/temporary_files.h) before they end it. One that the process was started with ignored, or
/// that somebody else handles, stays as it is.
class CleanEnd {
 public:
  CleanEnd();
  ~CleanEnd();
  CleanEnd(const CleanEnd&) = delete;
  CleanEnd& operator=(const CleanEnd&) = delete;
};

/// While it exists, SIGINT, SIGTERM and SIGHUP are requests to stop. Only one may exist at a time.
class StopRequests {
 public:
  StopRequests();
  ~StopRequests();
  StopRequests(const StopRequests&) = delete;
  StopRequests& operator=(const StopRequests&) = delete;

  /// The signal that asked to stop, or 0.
  static int asked() noexcept;
  /// From now on SIGUSR1 is a request to save, and no longer ends the process.
  static void note_saves();
  /// Whether there was a SIGUSR1 since the last call.
  static bool take_save() noexcept;
};

/// 130 for SIGINT, 131 for SIGQUIT, 143 for SIGTERM, 129 for SIGHUP.
ExitCode exit_code_of_signal(int signal);

/// "Ctrl-C", "SIGQUIT", "SIGTERM", "SIGHUP".
const char* name_of_signal(int signal);

}  // namespace lathe::cli
