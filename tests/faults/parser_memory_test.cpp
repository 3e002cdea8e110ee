// What a safetensors file may cost that says more than it holds: never more than four times its
// size and 1 MiB, beside the tensors that it has. Other formats: tests/fuzz/.
#include <doctest/doctest.h>

#include <optional>
#include <span>
#include <string>

#include "failing_calls.h"
#include "lathe/core/error.h"
#include "lathe/core/formats/safetensors.h"

namespace lathe {
namespace {

constexpr int64_t kTensorBytes = 512;  // of one without values: handle, storage, names in the dict

std::string file_of(const std::string& header, const std::string& values = "") {
  std::string length;
  for (int i = 0; i < 8; ++i) length += static_cast<char>(header.size() >> (8 * i) & 0xffu);
  return length + header + values;
}

/// `count` entries of one byte, the shortest that can be written.
std::string entries(int count) {
  std::string out = "{";
  for (int i = 0; i < count; ++i) {
    out += concat(i == 0 ? "" : ",", "\"", i, R"(":{"dtype":"U8","shape":[],"data_offsets":[)", i,
                  ",", i + 1, "]}");
  }
  return out;
}

struct Row {
  const char* what;
  std::string bytes;
  int64_t tensors;  // -1: it is refused
};

TEST_CASE("safetensors: no file costs more than four times its size and 1 MiB beside its tensors") {
  constexpr int kMany = 30'000;
  const std::string many = entries(kMany), values(kMany, '\1');
  std::string same_name = "{";
  for (int i = 0; i < kMany; ++i)
    same_name += R"("a":{"dtype":"U8","shape":[0],"data_offsets":[0,0]},)";
  same_name.back() = '}';
  const std::string text(3'000'000, 'x');
  std::string escapes;
  for (int i = 0; i < 1'000'000; ++i) escapes += "\\n";
  const Row rows[] = {
      {"many tensors", file_of(many + "}", values), kMany},
      {"many tensors, then no JSON", file_of(many, values), -1},
      {"many tensors, and values missing", file_of(many + "}", values.substr(1)), -1},
      {"a name that comes again and again", file_of(same_name), -1},
      {"a long text", file_of(R"({"__metadata__":{"k":")" + text + "\"}}"), 0},
      {"a long text with escapes", file_of(R"({"__metadata__":{"k":")" + escapes + "\"}}"), 0},
      {"a long name",
       file_of("{\"" + text + R"(":{"dtype":"U8","shape":[0],"data_offsets":[0,0]}})"), 1},
      {"a long text without end", file_of("{\"" + escapes), -1},
  };
  for (const Row& row : rows) {
    CAPTURE(row.what);
    bool refused = false;
    const int64_t peak = test::peak_bytes_of([&] {
      try {
        const auto got = safetensors::parse(std::as_bytes(std::span(row.bytes)), "x");
        CHECK(static_cast<int64_t>(got.tensors.size()) == row.tensors);
      } catch (const DataError&) {
        refused = true;
      }
    });
    CHECK(refused == (row.tensors < 0));
    const auto size = static_cast<int64_t>(row.bytes.size());
    CHECK(peak <= 4 * size + (1 << 20) + (refused ? 0 : row.tensors * kTensorBytes));
  }
}

}  // namespace
}  // namespace lathe
