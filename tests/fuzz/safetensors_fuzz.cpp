// Safetensors files: the JSON header, the offsets, the checksum.
#include "lathe/core/formats/safetensors.h"

#include <span>

#include "lathe/tests/fuzz/allocation_watch.h"
#include "lathe/tests/fuzz/target.h"

namespace lathe::fuzz {
namespace {

std::string file_with(const std::string& header, const std::string& values) {
  std::string length;
  for (int i = 0; i < 8; ++i) length += static_cast<char>(header.size() >> (8 * i) & 0xffu);
  return length + header + values;
}

std::vector<std::string> seeds() {
  return {
      file_with("{}", ""),
      file_with(R"({"a":{"dtype":"U8","shape":[2,2],"data_offsets":[0,4]}})", "abcd"),
      file_with(R"({"__metadata__":{"k":"v"},"b":{"dtype":"BOOL","shape":[],"data_offsets":[4,5]},)"
                R"("a":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},)"
                R"("z":{"dtype":"I64","shape":[3,0],"data_offsets":[5,5]}})",
                std::string("abcd\1", 5)),
  };
}

void feed(const std::string& bytes) {
  check_allocations(static_cast<int64_t>(bytes.size()), [&] {
    safetensors::parse(std::as_bytes(std::span(bytes)), "fuzz.safetensors");
  });
}

const Target target("safetensors", seeds, feed);

}  // namespace
}  // namespace lathe::fuzz
