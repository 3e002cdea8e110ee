// Scripts with which a shell completes commands, flags and values, and the manual page: made from
// the tables of commands and settings, as the help is.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lathe/tools/cli/settings/command.h"

namespace lathe::cli {

/// The completion script for a shell: "bash", "zsh" or "fish". `program` is lathe, or a program
/// with models of its own.
/// throws: UsageError for another shell.
std::string completion_script(std::span<const Command> commands, std::string_view shell,
                              std::string_view program);

/// The manual page in roff, for man(1).
std::string manual_page(std::span<const Command> commands, std::string_view version);

}  // namespace lathe::cli
