// The texts of --help, made from the tables of commands and settings.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "lathe/tools/cli/settings/command.h"

namespace lathe::cli {

/// A flag as --help shows it: "--[no-]json", "--lr NUMBER", "--optimizer sgd|adam|…".
std::string flag_of(const Setting& setting);

/// The width of help texts on stdout: that of the terminal, but at least 60 and at most 100
/// columns; 100 if stdout is not a terminal.
int help_width();

/// The commands, with an example for each. With a prefix ("data"), only the commands that begin
/// with the prefix.
std::string overview(std::span<const Command> commands, std::string_view prefix, int width);

/// One command: what it does, an example, and its flags by group with their values and defaults. No
/// line is wider than `width`.
std::string help_text(const Command& command, int width);

}  // namespace lathe::cli
