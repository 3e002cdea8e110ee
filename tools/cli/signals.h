// Ctrl-C, SIGTERM and SIGHUP: the first one asks to stop after the step, the second stops at once.
#pragma once

#include "lathe/tools/cli/exit_codes.h"

namespace lathe::cli {

/// While it exists, SIGINT, SIGTERM and SIGHUP are requests to stop. Only one may exist at a time.
class StopRequests {
 public:
  StopRequests();
  ~StopRequests();
  StopRequests(const StopRequests&) = delete;
  StopRequests& operator=(const StopRequests&) = delete;

  /// The signal that asked to stop, or 0.
  static int asked() noexcept;
};

/// 130 for SIGINT, 143 for SIGTERM, 129 for SIGHUP.
ExitCode exit_code_of_signal(int signal);

/// "Ctrl-C", "SIGTERM", "SIGHUP".
const char* name_of_signal(int signal);

}  // namespace lathe::cli
