// Checksums against the vectors of FIPS 180-4, NIST's CAVP and RFC 1321, in every way of cutting
// the input.
#include "lathe/core/files/hash.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include "lathe/core/error.h"

namespace lathe {
namespace {

TEST_CASE("SHA-256: published vectors") {
  CHECK(sha256_hex("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256_hex("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256_hex("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(
      sha256_hex(
          "abcdefghbcdefghicdefghijdefghijkefghijklfghijklmghijklmnhijklmnoijklmnopjklmnopqklmnopqr"
          "lmnopqrsmnopqrstnopqrstu") ==
      "cf5b16a778af8380036ce59e7b0492370b249b11e8f07a51afac45037afee9d1");
  CHECK(sha256_hex(std::string(1000000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("MD5: the test suite of RFC 1321") {
  CHECK(md5_hex("") == "d41d8cd98f00b204e9800998ecf8427e");
  CHECK(md5_hex("a") == "0cc175b9c0f1b6a831c399e269772661");
  CHECK(md5_hex("abc") == "900150983cd24fb0d6963f7d28e17f72");
  CHECK(md5_hex("message digest") == "f96b697d7cb7938d525a2f31aaf161d0");
  CHECK(md5_hex("abcdefghijklmnopqrstuvwxyz") == "c3fcd3d76192e4007dfb496cca67e13b");
  CHECK(md5_hex("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") ==
        "d174ab98d277d9f5a5611c2c9f419d9f");
  CHECK(
      md5_hex("12345678901234567890123456789012345678901234567890123456789012345678901234567890") ==
      "57edf4a22be3c955ac49da2e2107b67a");
}

TEST_CASE("hashes: the pieces do not matter") {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>(i * 7);
  for (size_t length = 0; length <= 200; ++length) {
    const std::string_view part = std::string_view(text).substr(0, length);
    const std::string sha = sha256_hex(part), md5 = md5_hex(part);
    for (const size_t step : {size_t{1}, size_t{13}, size_t{63}, size_t{64}, size_t{65}}) {
      Sha256 a;
      Md5 b;
      for (size_t at = 0; at < length; at += step) {
        a.update(part.substr(at, step));
        b.update(part.substr(at, step));
      }
      REQUIRE(a.hex() == sha);
      REQUIRE(b.hex() == md5);
    }
  }
}

TEST_CASE("hashes: of a file larger than one piece") {
  const auto path =
      std::filesystem::temp_directory_path() / ("lathe-hash-" + std::to_string(::getpid()));
  const std::string content(1000000, 'a');
  std::ofstream(path) << content;
  CHECK(sha256_hex_of_file(path.string()) == sha256_hex(content));
  CHECK(md5_hex_of_file(path.string()) == md5_hex(content));
  std::filesystem::remove(path);
  CHECK_THROWS_AS(md5_hex_of_file(path.string()), FileError);
}

}  // namespace
}  // namespace lathe
