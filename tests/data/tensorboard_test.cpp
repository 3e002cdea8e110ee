// EventWriter: the files are read by a small reader of TFRecord and protobuf of this test's own.
#include "lathe/data/tensorboard.h"

#include <doctest/doctest.h>
#include <sys/resource.h>

#include <bit>
#include <csignal>
#include <cstring>
#include <limits>
#include <map>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/lathe.h"
#include "lathe/tests/cli/file_size_limit.h"
#include "lathe/tests/cli/temporary_folder.h"

using namespace lathe;
using lathe::test::FileSizeLimit;
using lathe::test::TemporaryFolder;

namespace {

uint64_t little_endian(std::string_view bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

/// Bit by bit, from the definition.
uint32_t slow_masked_crc(std::string_view data) {
  uint32_t crc = ~0U;
  for (const char c : data) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78U : 0);
  }
  crc = ~crc;
  return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

/// The events of a file; all checksums must be right.
std::vector<std::string> records_of(const std::filesystem::path& file) {
  const std::string all = read_file(file.string(), 1 << 24);
  std::vector<std::string> records;
  for (std::string_view rest = all; !rest.empty();) {
    REQUIRE(rest.size() >= 16);
    const auto size = static_cast<size_t>(little_endian(rest.substr(0, 8)));
    CHECK(little_endian(rest.substr(8, 4)) == slow_masked_crc(rest.substr(0, 8)));
    REQUIRE(rest.size() >= size + 16);
    CHECK(little_endian(rest.substr(12 + size, 4)) == slow_masked_crc(rest.substr(12, size)));
    records.emplace_back(rest.substr(12, size));
    rest.remove_prefix(size + 16);
  }
  return records;
}

uint64_t take_varint(std::string_view& rest) {
  uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    REQUIRE(!rest.empty());
    const auto byte = static_cast<unsigned char>(rest.front());
    rest.remove_prefix(1);
    value |= static_cast<uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
}

/// The fields of a message: number → its bytes, of a varint as eight bytes.
std::multimap<int, std::string> fields_of(std::string_view rest) {
  std::multimap<int, std::string> out;
  while (!rest.empty()) {
    const uint64_t tag = take_varint(rest);
    size_t size = tag % 8 == 1 ? 8 : 4;
    if (tag % 8 == 0) {
      const uint64_t value = take_varint(rest);
      out.emplace(static_cast<int>(tag / 8), std::string(reinterpret_cast<const char*>(&value), 8));
      continue;
    }
    if (tag % 8 == 2) size = static_cast<size_t>(take_varint(rest));
    REQUIRE(rest.size() >= size);
    out.emplace(static_cast<int>(tag / 8), std::string(rest.substr(0, size)));
    rest.remove_prefix(size);
  }
  return out;
}

/// The bytes at a path of field numbers.
std::string at(std::string bytes, std::initializer_list<int> path) {
  for (const int number : path) {
    const auto fields = fields_of(bytes);
    const auto found = fields.find(number);
    REQUIRE_MESSAGE(found != fields.end(), number);
    bytes = found->second;
  }
  return bytes;
}

double as_double(std::string_view bytes) { return std::bit_cast<double>(little_endian(bytes)); }
float as_float(std::string_view bytes) {
  return std::bit_cast<float>(static_cast<uint32_t>(little_endian(bytes)));
}

std::vector<double> as_doubles(std::string_view bytes) {
  std::vector<double> out;
  for (; !bytes.empty(); bytes.remove_prefix(8)) out.push_back(as_double(bytes.substr(0, 8)));
  return out;
}

}  // namespace

TEST_CASE("tensorboard: the file begins with its version, and a scalar has tag, step and value") {
  const TemporaryFolder folder;
  EventWriter writer(folder.path() / "a" / "b");
  writer.add_scalar("loss/train", 0.1, 7);
  writer.add_scalar("loss/train", std::numeric_limits<double>::infinity(), int64_t{1} << 40);
  CHECK(writer.file().filename().string().starts_with("events.out.tfevents."));
  const auto records = records_of(writer.file());
  REQUIRE(records.size() == 3);
  CHECK(at(records[0], {3}) == "brain.Event:2");
  CHECK(as_double(at(records[0], {1})) > 1.7e9);
  CHECK(little_endian(at(records[1], {2})) == 7);
  CHECK(at(records[1], {5, 1, 1}) == "loss/train");
  CHECK(as_float(at(records[1], {5, 1, 2})) == 0.1F);
  CHECK(at(records[1], {5, 1, 9, 1, 1}) == "scalars");
  CHECK(little_endian(at(records[2], {2})) == uint64_t{1} << 40);
  CHECK(as_float(at(records[2], {5, 1, 2})) == std::numeric_limits<float>::infinity());
}

TEST_CASE("tensorboard: a histogram counts every finite value once") {
  const TemporaryFolder folder;
  EventWriter writer(folder.path());
  const double nan = std::numeric_limits<double>::quiet_NaN();
  writer.add_histogram("w", tensor({0.0, 0.1, 3.0, 3.0, nan}), 1);
  writer.add_histogram("same", full({4}, 2.5), 1);
  writer.add_histogram("none", tensor({nan}), 1);
  writer.add_histogram("integers", arange(30), 1);
  const auto records = records_of(writer.file());
  const std::string w = at(records[1], {5, 1, 5});
  CHECK(as_double(at(w, {1})) == 0);
  CHECK(as_double(at(w, {2})) == 3);
  CHECK(as_double(at(w, {3})) == 4);
  CHECK(as_double(at(w, {4})) == doctest::Approx(6.1));
  CHECK(as_double(at(w, {5})) == doctest::Approx(18.01));
  const auto limits = as_doubles(at(w, {6})), counts = as_doubles(at(w, {7}));
  REQUIRE(limits.size() == 30);
  CHECK(limits[0] == doctest::Approx(0.1));
  CHECK(limits[29] == 3);
  CHECK(counts[0] + counts[1] == 2);  // 0.1 is at the limit
  CHECK(counts[29] == 2);
  CHECK(as_double(at(records[2], {5, 1, 5, 3})) == 4);
  CHECK(as_doubles(at(records[2], {5, 1, 5, 7}))[0] == 4);
  CHECK(as_double(at(records[3], {5, 1, 5, 3})) == 0);
  for (const double count : as_doubles(at(records[4], {5, 1, 5, 7}))) CHECK(count == 1);
}

TEST_CASE("tensorboard: images are PNG files, texts are strings") {
  const TemporaryFolder folder;
  EventWriter writer(folder.path());
  Tensor x;
  try {
    x = full({3, 2, 5}, 0.5);
    writer.add_image("x", x, 2);
  } catch (const DataError&) {
    MESSAGE("skipped: this build has no libpng");
    return;
  }
  writer.add_text("note", "**bold** \xc3\xa4", 3);
  CHECK_THROWS_AS(writer.add_image("x", full({4, 2, 5}, 0.5), 2), ShapeError);
  const auto records = records_of(writer.file());
  REQUIRE(records.size() == 3);
  CHECK(little_endian(at(records[1], {5, 1, 4, 1})) == 2);
  CHECK(little_endian(at(records[1], {5, 1, 4, 2})) == 5);
  CHECK(little_endian(at(records[1], {5, 1, 4, 3})) == 3);
  CHECK(at(records[1], {5, 1, 4, 4}) == image::encode(x, ".png"));
  CHECK(at(records[2], {5, 1, 8, 8}) == "**bold** \xc3\xa4");
}

TEST_CASE("tensorboard: a run that goes on says from which step") {
  const TemporaryFolder folder;
  const EventWriter first(folder.path());
  const EventWriter second(folder.path(), {.suffix = "more", .first_step = 41});
  CHECK(first.file() != second.file());
  CHECK(second.file().string().ends_with(".more"));
  const auto records = records_of(second.file());
  REQUIRE(records.size() == 3);
  for (const size_t start : {1, 2}) {  // a single one does not cut off what earlier files have
    CHECK(little_endian(at(records[start], {2})) == 41);
    CHECK(little_endian(at(records[start], {7, 1})) == 1);
  }
}

TEST_CASE(
    "tensorboard: a record that does not fit on the disk is left out, and the file stays good") {
  const TemporaryFolder folder;
  EventWriter writer(folder.path());
  writer.add_scalar("a", 1, 1);
  const auto size = std::filesystem::file_size(writer.file());
  {
    const FileSizeLimit full(static_cast<rlim_t>(size) + 20);
    CHECK_THROWS_WITH_AS(writer.add_scalar("a", 2, 2), doctest::Contains("File too large"),
                         FileError);
  }
  CHECK(std::filesystem::file_size(writer.file()) == size);
  writer.add_scalar("a", 3, 3);
  CHECK(records_of(writer.file()).size() == 3);
  CHECK_THROWS_AS(EventWriter("/dev/null/x"), FileError);
}
