// The file of the convolution search: JSON, checksum, keys, engines. What is accepted is written
// back and read again. A key alone, for inputs that do not begin with a brace: no checksum protects
// those.
#include "lathe/ops/conv/search/conv_cache_file.h"

#include <stdexcept>

#include "lathe/core/format.h"
#include "lathe/tests/fuzz/allocation_watch.h"
#include "lathe/tests/fuzz/target.h"

namespace lathe::fuzz {
namespace {

ConvCache small_cache() {
  ConvKey key{.pass = ConvPass::kBackwardInput, .mode = ConvMode::kBenchmark};
  key.x = {.dtype = kF16, .dims = {1, 2, 3, 4}, .strides = {24, 1, 8, 2}, .alignment = 16};
  key.machine = ConvMachine{"NVIDIA \"H200\"", 9, 0, 132, "cudnn 9.19.0", "13.0", "13.0"};
  ConvChoice choice;
  choice.engines.push_back(
      {.info = {.engine = {.index = 7, .setting = {{2, 5}, {24, 10}}}, .workspace_bytes = 4096},
       .outcome = ConvOutcome::kTimed,
       .ms = 0.25,
       .runs = 5});
  choice.engines.push_back({.outcome = ConvOutcome::kFailed, .note = "not supported"});
  return {versions_of(*key.machine), {{key, choice}}};
}

std::vector<std::string> seeds() {
  const ConvCache cache = small_cache();
  return {conv_cache_text(cache), conv_cache_text({}), concat(cache.choices.begin()->first)};
}

void read_and_write(const std::string& bytes) {
  if (bytes.starts_with('{')) {
    const ConvCache cache = parse_conv_cache(bytes);
    const ConvCache again = parse_conv_cache(conv_cache_text(cache));
    if (again.versions != cache.versions || again.choices != cache.choices)
      throw std::logic_error("what was read is not what was written");
  } else if (concat(parse_conv_key(bytes)) != bytes) {
    throw std::logic_error("a key was read from a text that it does not have");
  }
}

void feed(const std::string& bytes) {
  check_allocations(static_cast<int64_t>(bytes.size()), [&] { read_and_write(bytes); });
}

const Target target("conv_cache", seeds, feed);

}  // namespace
}  // namespace lathe::fuzz
