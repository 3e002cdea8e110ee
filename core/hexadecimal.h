// hexadecimal(): a number as people write addresses.
#pragma once

#include <charconv>
#include <cstdint>
#include <string>

namespace lathe {

/// "0x0", "0x1f": lower case, without leading zeros.
inline std::string hexadecimal(uint64_t number) {
  char digits[16];
  return "0x" + std::string(digits, std::to_chars(digits, digits + sizeof digits, number, 16).ptr);
}

}  // namespace lathe
