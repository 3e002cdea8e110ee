// From argv to a command and its settings.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/tools/cli/settings/command.h"

namespace lathe::cli {

struct CommandLine {
  const Command* command = nullptr;  // null: only print `text`
  Invocation invocation;
  std::string text;  // of --help or --version, for stdout; of a call without arguments, for stderr
  ExitCode code = ExitCode::kDone;  // of the command after it printed the text
};

/// Parses the arguments (without the program's name). `environment` is getenv. A flag is written
/// "--flag=value" or "--flag value", a switch "--switch" or "--switch=true".
///   - An empty value is refused: it usually comes from a shell variable that is not set.
///   - The next argument is not taken as a value if it begins with "--".
/// throws: UsageError.
CommandLine parse_command_line(std::vector<std::string> arguments,
                               std::span<const Command> commands,
                               const char* (*environment)(const char*));

}  // namespace lathe::cli
