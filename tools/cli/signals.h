// What signals do to the command: the end without temporary files, exit codes and names.
#pragma once

#include "lathe/tools/cli/exit_codes.h"
#include "lathe/train/stop_signals.h"

namespace lathe::cli {

/// While a CleanEnd exists, SIGINT, SIGTERM, SIGHUP and SIGQUIT remove the temporary files of this
/// process (core/files/temporary_files.h) before they end the process. A signal that is ignored or
/// already handled stays as it is.
class CleanEnd {
 public:
  CleanEnd();
  ~CleanEnd();
  CleanEnd(const CleanEnd&) = delete;
  CleanEnd& operator=(const CleanEnd&) = delete;
};

using StopRequests = train::StopSignals;

/// The exit code after a signal: 130 for SIGINT, 131 for SIGQUIT, 143 for SIGTERM, 129 for SIGHUP.
ExitCode exit_code_of_signal(int signal);

/// The name of a signal for messages: "Ctrl-C", "SIGQUIT", "SIGTERM", "SIGHUP".
const char* name_of_signal(int signal);

}  // namespace lathe::cli
