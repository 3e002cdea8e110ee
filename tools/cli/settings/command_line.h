// From argv to a command and its settings.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/tools/cli/settings/command.h"

namespace lathe::cli {

struct CommandLine {
  const Command* command = nullptr;  // null: `text` is all there is to do
  Invocation invocation;
  std::string text;  // of --help and --version, for stdout
};

/// Parses the arguments (without the program's name). `environment` is getenv.
/// "--flag=value", "--flag value"; a switch stands alone or as "--switch=true". No value is empty:
/// an empty one is what a shell makes of a variable that is not set, and the next argument is never
/// taken instead. Nor is a next argument that begins with "--", which would be another flag.
/// throws: UsageError.
CommandLine parse_command_line(std::vector<std::string> arguments,
                               std::span<const Command> commands,
                               const char* (*environment)(const char*));

}  // namespace lathe::cli
