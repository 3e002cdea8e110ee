// Pages of HTML that stand alone: no script, and nothing from another place.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/config.h"

namespace lathe::report {

/// "data:image/png;base64,…": the bytes of a PNG file as the address of an image.
LATHE_API std::string png_address(std::string_view png);

/// A table. The first row holds the headings of the columns, the first cell of the others that of
/// the row. Cells are HTML. `caption` is text.
LATHE_API std::string html_table(std::string_view caption,
                                 const std::vector<std::vector<std::string>>& rows);

/// What every page begins with.
inline constexpr std::string_view kPageBegin = "<!DOCTYPE html>\n<!-- written by lathe -->\n";

/// A whole page: `title` is text, `body` HTML. It suits narrow screens, and light and dark as the
/// reader's system asks.
LATHE_API std::string html_page(std::string_view title, std::string_view body);

}  // namespace lathe::report
