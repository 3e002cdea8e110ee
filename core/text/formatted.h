// formatted(): texts with values in them, by {fmt}, whose own code is compiled once.
#pragma once

#include <string>
#include <string_view>

// Note [Names of header-only libraries] in core/json.h.
#define fmt fmt_for_lathe
#include <fmt/core.h>

#include "lathe/core/config.h"

namespace lathe {

/// What formatted() calls; the format is not checked.
LATHE_API std::string formatted_text(fmt::string_view format, fmt::format_args values);

/// The text with the values in place of its {}: fmt::format, checked while compiling as there. It
/// is one call of a function, while fmt::format compiles {fmt}'s code in each file that calls it.
template <class... T>
std::string formatted(fmt::format_string<T...> format, T&&... values) {
  return formatted_text(format, fmt::make_format_args(values...));
}

/// For {fmt}, which writes "-nan" if a NaN has the sign bit. The sign of a NaN means nothing.
LATHE_API double without_sign_of_nan(double value);
/// The shortest text that reads back as the same value; "nan" for any NaN.
LATHE_API std::string number_text(double value);

/// For a cell of a table.
inline const char* yes_no(bool value) { return value ? "yes" : "no"; }

/// The texts one after the other, with the separator between them.
template <class Texts>
std::string joined(const Texts& texts, std::string_view separator) {
  std::string out;
  bool first = true;
  for (const auto& text : texts) {
    if (!first) out += separator;
    first = false;
    out += text;
  }
  return out;
}

}  // namespace lathe
