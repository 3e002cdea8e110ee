// Makes text of unknown origin (names in files, file names, arguments) safe to show to people.
#pragma once

#include <string>
#include <string_view>

#include "lathe/core/config.h"

namespace lathe {

/// The text with everything spelled out that controls a terminal, ends a line, or changes the order
/// in which a line is read: control characters as \n, \r, \t, \x1b or \u009b; line separators and
/// marks of writing direction as \u202e; bytes that are not UTF-8 as \xff. All other characters
/// stay, also backslashes.
LATHE_API std::string printable(std::string_view text);

/// Like printable(), for a text of several lines: its line ends stay.
LATHE_API std::string printable_lines(std::string_view text);

}  // namespace lathe
