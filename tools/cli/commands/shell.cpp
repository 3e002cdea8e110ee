// lathe completion and lathe man: what a shell and man(1) know of the command.
#include <unistd.h>

#include <cerrno>  // GNU's program_invocation_short_name

#include "lathe/core/machine/info.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/settings/completions.h"

namespace lathe::cli {

ExitCode run_completion(const Invocation& call) {
  write_all(STDOUT_FILENO,
            completion_script(commands(), call.words.at(0), program_invocation_short_name),
            "stdout");
  return ExitCode::kDone;
}

ExitCode run_man(const Invocation&) {
  write_all(STDOUT_FILENO, manual_page(commands(), build_info().version), "stdout");
  return ExitCode::kDone;
}

}  // namespace lathe::cli
