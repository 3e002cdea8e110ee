// The texts of --help, made from the tables of commands and settings.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lathe/tools/cli/settings/command.h"

namespace lathe::cli {

/// "--[no-]json", "--lr NUMBER", "--optimizer sgd|adam|…".
std::string flag_of(const Setting& setting);

/// The columns that a text for stdout may take: those of its terminal, but 60 to 100; 100 where
/// stdout is no terminal.
int help_width();

/// The commands with an example each. With a prefix ("data"), only those that begin with it.
std::string overview(std::span<const Command> commands, std::string_view prefix, int width);

/// One command: what it does, an example, and its flags by group with their values and defaults. No
/// line is wider than `width`.
std::string help_text(const Command& command, int width);

}  // namespace lathe::cli
