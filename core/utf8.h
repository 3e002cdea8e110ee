// UTF-8, one code point at a time.
// ref: RFC 3629.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace lathe {

/// Appends a code point (not a surrogate) as UTF-8.
void append_utf8(std::string& out, uint32_t code_point);

/// The bytes of the UTF-8 sequence at the beginning of `text`; 0 if it is not valid. Valid is the
/// shortest form of a code point up to 10FFFF that is not a surrogate.
size_t utf8_length(std::string_view text);

}  // namespace lathe
