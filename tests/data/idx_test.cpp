#include "lathe/data/images/idx.h"

#include <doctest/doctest.h>

#include "files.h"
#include "lathe/core/error.h"
#include "lathe/core/formats/deflate.h"
#include "lathe/data/images/byte_stream.h"

namespace lathe::data {
namespace {

using namespace testing;

auto needs_zlib() { return doctest::skip(!gzip_available()); }

std::string counting(int n) {
  std::string out;
  for (int k = 0; k < n; ++k) out += static_cast<char>(k);
  return out;
}

std::string error_of(const std::string& bytes, int64_t dims = 2, int64_t limit = 1000) {
  const TempDir dir;
  write_file(dir / "f", bytes);
  const std::string text = message_of<DataError>([&] { read_idx(dir / "f", dims, limit); });
  const std::string prefix = (dir / "f").string() + ": ";
  REQUIRE(text.substr(0, prefix.size()) == prefix);
  return text.substr(prefix.size());
}

/// One gzip member, deflated; without the checksum behind it.
std::string small_gzip(const std::string& content) {
  const std::string_view parts[] = {content};
  return std::string("\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff", 10) + deflate(parts);
}

TEST_CASE("idx: plain and gzip files give the same array" * needs_zlib()) {
  const TempDir dir;
  const std::string bytes = idx({2, 3, 5}, counting(30));
  write_file(dir / "plain", bytes);
  write_file(dir / "packed", gzip(bytes));
  write_file(dir / "twice",
             gzip(bytes.substr(0, 20)) + gzip(bytes.substr(20)));  // two gzip members
  for (const char* name : {"plain", "packed", "twice"}) {
    const IdxArray array = read_idx(dir / name, 3);
    CHECK(array.shape == std::vector<int64_t>{2, 3, 5});
    CHECK(std::string(array.values.begin(), array.values.end()) == counting(30));
  }
}

TEST_CASE("idx: images and labels") {
  const TempDir dir;
  write_file(dir / "x", idx({3, 2, 2}, counting(12)));
  write_file(dir / "y", idx({3}, std::string("\x09\x00\x04", 3)));
  const ImageSet set = read_idx_images(dir / "x", dir / "y", 10);
  CHECK(set.count() == 3);
  CHECK(set.channels == 1);
  CHECK(set.height == 2);
  CHECK(set.width == 2);
  CHECK(set.labels == std::vector<uint8_t>{9, 0, 4});
  CHECK(set.image(2)[0] == 8);
}

TEST_CASE("idx: errors name file, record and value") {
  CHECK(error_of("") == "ends after 0 bytes of IDX header, which needs 4");
  CHECK(error_of("PNG!") == "is not an IDX file: it starts with bytes 80 78 instead of 0 0");
  CHECK(error_of(std::string("\0\0\x0d\x02", 4)) ==
        "holds IDX type 13, but only type 8 (unsigned byte) is known");
  CHECK(error_of(idx({1, 1, 1}, "x")) == "has 3 dimensions where 2 are expected");
  CHECK(error_of(idx({2, 3}, "").substr(0, 9)) ==
        "ends after 5 bytes of IDX dimensions, which needs 8");
  CHECK(error_of(idx({2, 3}, "12345")) == "ends after 5 bytes of IDX values, which needs 6");
  CHECK(error_of(idx({2, 3}, "1234567")) ==
        "has more bytes after the 6 bytes of values that its header declares");
  CHECK(error_of(idx({2, 0}, "")) == "declares a dimension of size 0");
  CHECK(error_of(idx({100, 11}, std::string(1100, 'x'))) ==
        "declares more than 1000 bytes (the limit; dimension of size 11)");
}

TEST_CASE("idx: a declared size that the file cannot hold is refused before memory is taken" *
          needs_zlib()) {
  CHECK(error_of(idx({0xffffffff, 0xffffffff}, "x"), 2, int64_t{1} << 62) ==
        "declares more than 13 bytes (the most that is read of this file; dimension of size "
        "4294967295)");
  const std::string packed = gzip(idx({0x7fffffff, 1}, "x"));
  CHECK(error_of(packed, 2, int64_t{1} << 62) ==
        "declares more than " + std::to_string(packed.size() * 1032) +
            " bytes (the most that is read of this file; dimension of size 2147483647)");
}

TEST_CASE("gzip: what unpacks to far more than it takes is refused" * needs_zlib()) {
  const TempDir dir;
  const uint32_t count = 80u << 20;
  const std::string zeros = idx({count}, std::string(count, '\0')), packed = small_gzip(zeros);
  REQUIRE(packed.size() < 100'000);
  const std::string most = std::to_string((size_t{64} << 20) + 32 * packed.size());
  CHECK(error_of(packed, 1, int64_t{1} << 40) ==
        "declares more than " + most +
            " bytes (the most that is read of this file; dimension of size 83886080)");
  write_file(dir / "f", packed);
  const auto stream = open_stream(dir / "f");
  std::vector<char> piece(1 << 20);
  const std::string text = message_of<DataError>([&] {
    while (stream->read(piece.data(), piece.size()) == piece.size()) {
    }
  });
  CHECK(text == (dir / "f").string() + ": its " + std::to_string(packed.size()) +
                    " bytes of gzip data inflate to more than " + most + ", the most that is read");
}

TEST_CASE("idx: a label that is no class and a count that differs") {
  const TempDir dir;
  write_file(dir / "x", idx({2, 2, 2}, counting(8)));
  write_file(dir / "one", idx({2}, std::string("\0\1", 2)));
  CHECK(message_of<DataError>([&] { read_idx_images(dir / "x", dir / "one", 1); }) ==
        (dir / "one").string() + ": record 1 has label 1, but labels are 0");
  write_file(dir / "x", idx({3, 2, 2}, counting(12)));
  write_file(dir / "y", idx({3}, std::string("\x09\x0a\x04", 3)));
  CHECK(message_of<DataError>([&] { read_idx_images(dir / "x", dir / "y", 10); }) ==
        (dir / "y").string() + ": record 1 has label 10, but labels are 0 to 9");
  write_file(dir / "y", idx({2}, std::string("\x09\x00", 2)));
  CHECK(message_of<DataError>([&] { read_idx_images(dir / "x", dir / "y", 10); }) ==
        (dir / "x").string() + ": has 3 images, but " + (dir / "y").string() + " has 2 labels");
}

TEST_CASE("gzip: every truncation and every flipped byte is noticed" * needs_zlib()) {
  const std::string packed = gzip(idx({4, 5}, counting(20)));
  for (size_t size = 2; size < packed.size(); ++size) {
    CAPTURE(size);
    CHECK(error_of(packed.substr(0, size)).find("truncated") != std::string::npos);
  }
  for (size_t at = 0; at < packed.size(); ++at) {
    if (at >= 4 && at <= 9)
      continue;  // time, flags of the packer, system: mean nothing for the content
    CAPTURE(at);
    std::string broken = packed;
    broken[at] = static_cast<char>(broken[at] ^ 0x55);
    CHECK(!error_of(broken).empty());
  }
  CHECK(error_of(packed + "and more").find("other bytes follow the gzip data") == 0);
}

}  // namespace
}  // namespace lathe::data
