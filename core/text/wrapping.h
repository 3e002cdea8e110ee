// Lines for people at a terminal: how wide it is, and breaking lines between words.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "lathe/core/config.h"

namespace lathe {

/// Columns of UTF-8 text, one for each character.
LATHE_API size_t columns_of(std::string_view text);

/// True if a terminal of `width` columns has room for the line. Always true for a width below 20:
/// lines are then not wrapped.
LATHE_API bool fits(std::string_view line, int width);

/// Appends the text at column `at` of the last line, broken between words and between the choices
/// of "a|b|c", and a line break. Lines after the first begin at column `indent`. A word that is
/// wider than `width` stays whole.
LATHE_API void append_wrapped(std::string& out, std::string_view text, size_t at, size_t indent,
                              int width);

/// A line as `width` columns show it, without a line break at its end: where it is longer, further
/// lines follow that are indented, by more than it is itself. A width of 0 leaves it as it is, and
/// so does one below 20, where indented lines would be worse than the terminal's own.
LATHE_API std::string wrapped(std::string_view line, int width);

/// Like wrapped(), for the lines of tables and lists: the continuation of a line is indented to its
/// second column, which two spaces or more precede, if that begins in the first third of the width.
LATHE_API std::string wrapped_rows(std::string_view lines, int width);

}  // namespace lathe
