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
  std::string text;  // of --help and --version, for stdout; without arguments for stderr
  ExitCode code = ExitCode::kDone;  // after the text
};

/// Parses the arguments (without the program's name). `environment` is getenv. Forms:
/// "--flag=value", "--flag value"; a switch stands alone or as "--switch=true". An empty value is
/// refused, because a shell makes one of a variable that is not set; the next argument is not taken
/// instead. A next argument that begins with "--" is not taken as a value either.
/// throws: UsageError.
CommandLine parse_command_line(std::vector<std::string> arguments,
                               std::span<const Command> commands,
                               const char* (*environment)(const char*));

}  // namespace lathe::cli
