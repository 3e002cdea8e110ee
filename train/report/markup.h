// Text inside of HTML and SVG.
#pragma once

#include <string>
#include <string_view>

#include "lathe/core/config.h"

namespace lathe::report {

/// Text for a page or a picture: markup is spelled out, and so is what controls a terminal or the
/// order of reading (core/printable.h).
LATHE_API std::string markup_text(std::string_view text);

}  // namespace lathe::report
