// Safetensors: round trips, files written by hand from the format's definition, and everything that
// must be refused.
#include "lathe/core/formats/safetensors.h"

#include <doctest/doctest.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "lathe/core/files/file.h"
#include "lathe/core/half.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/views.h"
#include "lathe/tests/data/files.h"

namespace lathe {
namespace {

using data::testing::message_of;
using data::testing::TempDir;

std::string length_of(uint64_t n) {
  std::string out;
  for (int i = 0; i < 8; ++i) out += static_cast<char>(n >> (8 * i) & 0xffu);
  return out;
}

std::string file_of(const std::string& header, const std::string& values = "") {
  return length_of(header.size()) + header + values;
}

safetensors::Contents parse(const std::string& bytes) {
  return safetensors::parse(std::as_bytes(std::span(bytes)), "x.safetensors");
}

std::string error_of(const std::string& bytes) {
  return message_of<DataError>([&] { parse(bytes); });
}

std::string bytes_of(const Tensor& t) {
  const Tensor dense = t.contiguous();
  return {static_cast<const char*>(dense.raw_data()), static_cast<size_t>(dense.bytes())};
}

/// Same names, dtypes, shapes and bits, in the same order.
bool same(const StateDict& a, const StateDict& b) {
  if (a.size() != b.size()) return false;
  auto other = b.begin();
  for (const auto& [name, t] : a) {
    const auto& [other_name, u] = *other++;
    if (name != other_name || t.dtype() != u.dtype() || !(t.shape() == u.shape()) ||
        bytes_of(t) != bytes_of(u)) {
      return false;
    }
  }
  return true;
}

StateDict sample() {
  StateDict state;
  state.add("weight", tensor({{1.5f, -2.f, 0.f}, {3.f, 1e-40f, -0.f}}));
  state.add("half", tensor({1.0, 65504.0, -0.5}, {.dtype = kF16}));
  state.add("brain", tensor({1.0, 3e38}, {.dtype = kBF16}));
  state.add("double", tensor({0.1, 1e300}, kF64));
  state.add("flags", tensor({1, 0, 1}, {.dtype = kBool}));
  state.add("u8", tensor({0, 255}, {.dtype = kU8}));
  state.add("i8", tensor({-128, 127}, {.dtype = kI8}));
  state.add("i16", tensor({-32768}, {.dtype = kI16}));
  state.add("i32", tensor({1 << 30, -1}));
  state.add("batches", tensor(int64_t{1} << 60));
  state.add("none", zeros({3, 0, 2}));
  state.add("a name with \"quotes\", \n and ünïcode", ones({1}));
  return state;
}

TEST_CASE("safetensors: every dtype, 0-d, zero-size and odd names survive a round trip in order") {
  const TempDir dir;
  const std::string path = dir / "x.safetensors";
  safetensors::write(path, sample(), {{"epoch", "3"}, {"note", "ä \"b\""}});
  const auto back = safetensors::read(path);
  CHECK(same(back.tensors, sample()));
  CHECK(back.metadata == safetensors::Metadata{{"epoch", "3"}, {"note", "ä \"b\""}});
}

TEST_CASE("safetensors: views are written row-major, and each tensor is aligned to its element") {
  const TempDir dir;
  const std::string path = dir / "x.safetensors";
  StateDict state;
  state.add("odd", tensor({1, 2, 3}, {.dtype = kU8}));
  state.add("t", transpose(tensor({{1.f, 2.f}, {3.f, 4.f}}), 0, 1));
  state.add("d", tensor({1.0}, kF64));
  safetensors::write(path, state);
  const auto back = safetensors::read(path);
  CHECK(back.tensors.at("t").to_vector<float>() == std::vector<float>{1, 3, 2, 4});
  const std::string bytes = data::testing::read_file(path);
  uint64_t header = 0;
  std::memcpy(&header, bytes.data(), 8);
  CHECK(header % 8 == 0);
  CHECK(bytes.find("\"d\":{\"dtype\":\"F64\",\"shape\":[1],\"data_offsets\":[0,8]}") !=
        std::string::npos);
  CHECK(bytes.find("\"t\":{\"dtype\":\"F32\",\"shape\":[2,2],\"data_offsets\":[8,24]}") !=
        std::string::npos);
  CHECK(bytes.find("\"odd\":{\"dtype\":\"U8\",\"shape\":[3],\"data_offsets\":[24,27]}") !=
        std::string::npos);
  CHECK(bytes.size() == 8 + header + 27);
}

TEST_CASE(
    "safetensors: reads what others write: any order of fields and entries, blanks, no checksum") {
  const auto got = parse(file_of(
      R"({ "b": {"shape":[2], "data_offsets":[4,8], "dtype":"I16"}, "a":{"dtype":"F32","shape":[],"data_offsets":[0,4]},)"
      R"("e":{"dtype":"F64","shape":[0,7],"data_offsets":[4,4]}, "__metadata__":{"format":"pt"} }   )",
      std::string("\0\0\x80\x3f\1\0\2\0", 8)));
  CHECK(got.tensors.size() == 3);
  CHECK(got.tensors.begin()->first == "b");
  CHECK(got.tensors.at("b").to_vector<int>() == std::vector<int>{1, 2});
  CHECK(got.tensors.at("a").item<float>() == 1.f);
  CHECK(got.tensors.at("e").shape() == Shape{0, 7});
  CHECK(got.metadata == safetensors::Metadata{{"format", "pt"}});
  CHECK(parse(file_of("{}")).tensors.empty());
}

struct Refused {
  std::string bytes, because;
};

std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape +
         ",\"data_offsets\":" + offsets + "}";
}

void check_refused(const std::vector<Refused>& cases) {
  for (const Refused& c : cases) {
    const std::string text = error_of(c.bytes);
    CAPTURE(c.because);
    CHECK_MESSAGE(text.find(c.because) != std::string::npos, text);
    CHECK(text.starts_with("x.safetensors: "));
    CHECK(text.find('\n') == std::string::npos);
  }
}

TEST_CASE("safetensors: a header that is not the format's is refused with the entry") {
  const std::string good = entry("a", "U8", "[4]", "[0,4]");
  const std::string deep(100000, '[');
  check_refused({
      {"", "0 bytes are too few for a safetensors file"},
      {"1234567", "7 bytes are too few"},
      {length_of(100'000'001) + "{}",
       "the header length 100000001 is above the format's limit of 100000000"},
      {length_of(uint64_t(-1)) + "{}", "the header length 18446744073709551615 is above"},
      {length_of(3) + "{}", "the header length 3 does not fit a file of 10 bytes"},
      {file_of(""), "does not begin with '{'"},
      {file_of(" {}"), "does not begin with '{'"},
      {file_of("{\"a\""), "not valid JSON at its byte"},
      {file_of("{} x"), "not valid JSON"},
      {file_of("{\"\xff\":1}"), "not valid JSON"},
      {file_of("{" + good + ",}", "abcd"), "not valid JSON"},
      {file_of("{\"a\":1}"), "entry \"a\": a number where the format has none"},
      {file_of("{\"a\":" + deep), "entry \"a\": an array where the format has none"},
      {file_of("{\"a\":{\"dtype\":{}}}"), "entry \"a\": an object where the format has none"},
      {file_of("{\"a\":{\"shape\":[[1]]}}"), "an array where"},
      {file_of("{\"a\":null}"), "entry \"a\": null where"},
      {file_of("{\"a\":{}}"), "entry \"a\" has no \"dtype\""},
      {file_of(R"({"a":{"dtype":"U8","shape":[0]}})"), "entry \"a\" has no \"data_offsets\""},
      {file_of(R"({"a":{"dtype":"U8","extra":1}})"), "unknown field \"extra\""},
      {file_of(R"({"a":{"dtype":"U8","dtype":"U8"}})"), "field \"dtype\" appears twice"},
      {file_of("{" + good + "," + good + "}", "abcd"), "entry \"a\" appears twice"},
      {file_of(R"({"__metadata__":{"k":"1","k":"2"}})"), "metadata key \"k\" appears twice"},
      {file_of(R"({"__metadata__":{"k":1}})"),
       "metadata \"k\": a number where the format has none"},
      {file_of(R"({"__metadata__":"k"})"), "a string where"},
  });
}

TEST_CASE("safetensors: every fault is refused with the file, the entry and the values") {
  const std::string good = entry("a", "U8", "[4]", "[0,4]");
  check_refused({
      {file_of("{" + entry("a", "F8_E4M3", "[4]", "[0,4]") + "}", "abcd"),
       "dtype \"F8_E4M3\" is not one"},
      {file_of("{" + entry("a", "u8", "[4]", "[0,4]") + "}", "abcd"), "dtype \"u8\" is not one"},
      {file_of("{" + entry("a", "U8", "[-4]", "[0,4]") + "}", "abcd"), "a negative number where"},
      {file_of("{" + entry("a", "U8", "[4.0]", "[0,4]") + "}", "abcd"), "a fraction where"},
      {file_of("{" + entry("a", "U8", "[9223372036854775808]", "[0,4]") + "}", "abcd"),
       "is too large"},
      {file_of("{" + entry("a", "U8", "[1,1,1,1,1,1,1,1,4]", "[0,4]") + "}", "abcd"),
       "more than 8 dimensions"},
      {file_of("{" + entry("a", "U8", "[4]", "[0]") + "}", "abcd"),
       "data_offsets has 1 numbers instead of 2"},
      {file_of("{" + entry("a", "U8", "[4]", "[0,4,4]") + "}", "abcd"),
       "data_offsets has 3 numbers"},
      {file_of("{" + entry("a", "F32", "[2]", "[0,4]") + "}", "abcd"),
       "[0,4] do not hold the 8 bytes of f32[2]"},
      {file_of("{" + entry("a", "U8", "[4]", "[4,0]") + "}", "abcd"),
       "[4,0] do not hold the 4 bytes"},
      {file_of("{" + entry("a", "F64", "[4611686018427387904,4]", "[0,4]") + "}", "abcd"),
       "overflows"},
      {file_of("{" + entry("a", "U8", "[0,4611686018427387904,4]", "[0,0]") + "}"), "overflows"},
      {file_of(
           "{" + entry("a", "U8", "[2]", "[0,2]") + "," + entry("b", "U8", "[2]", "[1,3]") + "}",
           "abc"),
       "entry \"b\" begins at byte 1 of the values, but the entry before it ends at 2 (overlap)"},
      {file_of(
           "{" + entry("a", "U8", "[1]", "[0,1]") + "," + entry("b", "U8", "[1]", "[2,3]") + "}",
           "abc"),
       "entry \"b\" begins at byte 2 of the values, but the entry before it ends at 1 (hole)"},
      {file_of("{" + entry("a", "U8", "[1]", "[1,2]") + "}", "ab"), "ends at 0 (hole)"},
      {file_of("{" + good + "}", "abcde"),
       "the entries hold 4 bytes of values but the file holds 5"},
      {file_of("{" + good + "}", "abc"), "the entries hold 4 bytes of values but the file holds 3"},
      {file_of("{" + entry("a", "BOOL", "[2]", "[0,2]") + "}", std::string("\1\2", 2)),
       "holds the byte 2 as a bool"},
  });
}

TEST_CASE(
    "safetensors: every truncation and every flipped bit gives a typed error or the same tensors") {
  const TempDir dir;
  const std::string path = dir / "x.safetensors";
  StateDict state;
  state.add("w", tensor({1.f, 2.f, 3.f}));
  state.add("flag", tensor({1, 0}, {.dtype = kBool}));
  state.add("n", tensor(int64_t{7}));
  safetensors::write(path, state, {{"k", "v"}});
  const std::string bytes = data::testing::read_file(path);
  REQUIRE(same(parse(bytes).tensors, state));
  for (size_t n = 0; n < bytes.size(); ++n) {
    CAPTURE(n);
    CHECK(error_of(bytes.substr(0, n)) != "");
  }
  CHECK(error_of(bytes + '\0') != "");
  int accepted = 0;
  for (size_t at = 0; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string flipped = bytes;
      flipped[at] = static_cast<char>(flipped[at] ^ (1 << bit));
      CAPTURE(at);
      CAPTURE(bit);
      try {
        CHECK(same(parse(flipped).tensors, state));
        ++accepted;
      } catch (const DataError&) {
      }
    }
  }
  // Only flips in the checksum's own key are harmless: the file then carries no checksum.
  CHECK(accepted < 8 * 12);
}

TEST_CASE("safetensors: a changed value is caught by the checksum") {
  const TempDir dir;
  const std::string path = dir / "x.safetensors";
  StateDict state;
  state.add("w", tensor({1.f, 2.f}));
  safetensors::write(path, state);
  std::string bytes = data::testing::read_file(path);
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  data::testing::write_file(path, bytes);
  const std::string text = message_of<DataError>([&] { safetensors::read(path); });
  CHECK_MESSAGE(text.starts_with(path + ": the contents have checksum "), text);
}

TEST_CASE("safetensors: what cannot be written is refused, and the old file stays") {
  const TempDir dir;
  const std::string path = dir / "x.safetensors";
  StateDict old;
  old.add("w", tensor({1.f}));
  safetensors::write(path, old);
  StateDict bad;
  bad.add("\xff", tensor({2.f}));
  CHECK_THROWS_WITH_AS(safetensors::write(path, bad), doctest::Contains("is not UTF-8"),
                       ValueError);
  CHECK_THROWS_WITH_AS(safetensors::write(path, old, {{"lathe.crc32c", "1"}}),
                       doctest::Contains("is reserved"), ValueError);
  StateDict reserved;
  reserved.add("__metadata__", tensor({2.f}));
  CHECK_THROWS_AS(safetensors::write(path, reserved), ValueError);
  CHECK(same(safetensors::read(path).tensors, old));
}

TEST_CASE("safetensors: a save that fails at any step leaves the old file and nothing else") {
  const TempDir dir;
  const std::string path = dir / "x.safetensors";
  StateDict old, fresh;
  old.add("w", tensor({1.f}));
  fresh.add("w", tensor({2.f}));
  fresh.add("v", tensor({3.f}));
  safetensors::write(path, old);
  FileFaults& faults = file_faults();
  for (FaultPoint* point : {&faults.open, &faults.write, &faults.rename}) {
    const ArmedFault fault(*point, 1, FaultPoint::kForever);
    CHECK_THROWS_AS(safetensors::write(path, fresh), FileError);
    point->disarm();
    CHECK(same(safetensors::read(path).tensors, old));
    CHECK(data::testing::names_in(dir.path()) == std::vector<std::string>{"x.safetensors"});
  }
  CHECK_THROWS_AS(safetensors::read(dir / "absent.safetensors"), FileError);
}

}  // namespace
}  // namespace lathe
