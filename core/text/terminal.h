// What goes to a terminal besides the results of a program.
#pragma once

#include <string_view>

#include "lathe/core/config.h"

namespace lathe {

/// The columns of the terminal behind a descriptor; 0 if there is none or it does not say.
LATHE_API int terminal_width(int descriptor) noexcept;

/// Writes to stderr. It is no error if nobody reads it.
LATHE_API void write_stderr(std::string_view text) noexcept;

/// Writes a line and a line break to stderr. A terminal gets it broken between words (wrapping.h).
LATHE_API void write_stderr_line(std::string_view line) noexcept;

}  // namespace lathe
