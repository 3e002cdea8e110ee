// Three bytes are four digits of six bits.
#include "lathe/core/text/base64.h"

#include <cstdint>

#include "lathe/core/error.h"

namespace lathe {
namespace {

constexpr std::string_view kDigits =
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string out;
  out.reserve((bytes.size() + 2) / 3 * 4);
  for (size_t at = 0; at < bytes.size(); at += 3) {
    uint32_t bits = 0;
    for (size_t i = 0; i < 3; ++i)
      bits = bits << 8 | (at + i < bytes.size() ? static_cast<unsigned char>(bytes[at + i]) : 0U);
    for (size_t i = 0; i < 4; ++i)
      out += at + i <= bytes.size() ? kDigits[bits >> (18 - 6 * i) & 63] : '=';
  }
  return out;
}

std::string from_base64(std::string_view text) {
  std::string out;
  out.reserve(text.size() / 4 * 3);
  uint32_t bits = 0;
  for (size_t i = 0; i < text.size() && text[i] != '='; ++i) {
    const size_t digit = kDigits.find(text[i]);
    LATHE_CHECK(DataError, digit != std::string_view::npos, "byte ", i,
                " of the base64 text is no digit");
    bits = bits << 6 | static_cast<uint32_t>(digit);
    if (i % 4 == 0) continue;
    out += static_cast<char>(bits >> (6 - 2 * (i % 4)) & 255);
  }
  LATHE_CHECK(DataError, to_base64(out) == text, "the base64 text of ", text.size(),
              " digits is damaged");
  return out;
}

}  // namespace lathe
