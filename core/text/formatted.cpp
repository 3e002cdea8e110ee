// formatted(): the one place where {fmt} is compiled.
#define FMT_HEADER_ONLY
#include "lathe/core/text/formatted.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>

namespace lathe {

std::string formatted_text(fmt::string_view format, fmt::format_args values) {
  return fmt::vformat(format, values);
}

double without_sign_of_nan(double value) {
  return std::isnan(value) ? std::numeric_limits<double>::quiet_NaN() : value;
}

std::string number_text(double value) { return formatted("{}", without_sign_of_nan(value)); }

}  // namespace lathe
