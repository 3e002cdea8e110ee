// CRC-32C against the published check values and a bit-by-bit computation.
#include "lathe/core/files/crc32c.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "lathe/core/files/crc_slicing.h"

namespace lathe {
namespace {

uint32_t crc_of(std::string_view text, uint32_t before = 0) {
  return crc32c(text.data(), text.size(), before);
}

uint32_t bit_by_bit(std::string_view text) {
  uint32_t crc = 0xffffffffu;
  for (const char c : text) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1u) != 0 ? 0x82F63B78u : 0u);
  }
  return ~crc;
}

TEST_CASE("crc32c: the check values of RFC 3720, appendix B.4") {
  CHECK(crc_of("123456789") == 0xE3069283u);
  CHECK(crc_of("") == 0u);
  CHECK(crc_of(std::string(32, '\0')) == 0x8A9136AAu);
  CHECK(crc_of(std::string(32, '\xff')) == 0x62A8AB43u);
}

TEST_CASE(
    "crc32c: every length and alignment agrees with the bit-by-bit computation, in one part or "
    "two") {
  std::string text;
  for (int i = 0; i < 64; ++i) text += static_cast<char>(i * 37 + 11);
  for (size_t begin = 0; begin < 9; ++begin) {
    for (size_t end = begin; end <= text.size(); ++end) {
      const std::string_view part = std::string_view(text).substr(begin, end - begin);
      CHECK(crc_of(part) == bit_by_bit(part));
      const size_t half = part.size() / 3;
      CHECK(crc_of(part.substr(half), crc_of(part.substr(0, half))) == bit_by_bit(part));
    }
  }
}

TEST_CASE("crc32c: the tables, for processors without the instruction, give the same") {
  std::string text(100'003, '\0');
  for (size_t i = 0; i < text.size(); ++i) text[i] = static_cast<char>(i * i + (i >> 3));
  for (const size_t size :
       {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{4097}, text.size()}) {
    const uint32_t tables = crc_detail::crc32c_by_slicing(text.data(), size, 0);
    CHECK(tables == bit_by_bit(std::string_view(text).substr(0, size)));
    CHECK(tables == crc32c(text.data(), size));
  }
}

}  // namespace
}  // namespace lathe
