// From argv to a command and its settings.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "lathe/tools/cli/command.h"

namespace lathe::cli {

struct CommandLine {
  const Command* command = nullptr;  // null: `text` is all there is to do
  Invocation invocation;
  std::string text;  // of --help and --version, for stdout
};

/// Parses the arguments (without the program's name). `environment` is getenv.
/// throws: UsageError.
CommandLine parse_command_line(std::vector<std::string> arguments,
                               std::span<const Command> commands,
                               const char* (*environment)(const char*));

}  // namespace lathe::cli
