// base64: the vectors of RFC 4648, section 10, and bytes of all values.
#include "lathe/core/text/base64.h"

#include <doctest/doctest.h>

#include <string>

#include "lathe/core/error.h"

using namespace lathe;

TEST_CASE("base64: the vectors of the RFC, both ways") {
  const char* const vectors[][2] = {{"", ""},
                                    {"f", "Zg=="},
                                    {"fo", "Zm8="},
                                    {"foo", "Zm9v"},
                                    {"foob", "Zm9vYg=="},
                                    {"fooba", "Zm9vYmE="},
                                    {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, digits] : vectors) {
    CHECK(to_base64(bytes) == digits);
    CHECK(from_base64(digits) == bytes);
  }
}

TEST_CASE("base64: bytes of any value and number come back") {
  std::string bytes;
  for (int i = 0; i < 259; ++i) {
    CHECK(from_base64(to_base64(bytes)) == bytes);
    bytes += static_cast<char>(i * 37);
  }
}

TEST_CASE("base64: any other text is refused") {
  for (const char* text : {"Z", "Zg", "Zg=", "Zh==", "Zg==Zg==", "Zm9v=", "Z!9v", "====", "Zm9v\n"})
    CHECK_THROWS_AS(from_base64(text), DataError);
}
