// Descriptions of GPUs: JSON with the keys that cuDNN needs. What is accepted is the same when it
// is read again from its own text.
#include "lathe/core/machine/gpu_description.h"

#include <stdexcept>

#include "lathe/tests/fuzz/allocation_watch.h"
#include "lathe/tests/fuzz/target.h"

namespace lathe::fuzz {
namespace {

std::vector<std::string> seeds() {
  std::string renamed = gpu_description("h200").json;
  renamed.replace(renamed.find("NVIDIA H200"), 11, "\\u00e9\\\"}{[");
  return {gpu_description("h200").json, gpu_description("rtx4090").json, renamed};
}

void feed(const std::string& bytes) {
  check_allocations(static_cast<int64_t>(bytes.size()), [&] {
    const GpuDescription gpu = parse_gpu_description(bytes);
    const GpuDescription again = parse_gpu_description(gpu.json);
    if (again.json != gpu.json || again.name != gpu.name || again.major != gpu.major ||
        again.minor != gpu.minor || again.multiprocessors != gpu.multiprocessors ||
        again.memory_bytes != gpu.memory_bytes || again.l2_bytes != gpu.l2_bytes)
      throw std::logic_error("what was read is not what was written");
  });
}

const Target target("gpu_description", seeds, feed);

}  // namespace
}  // namespace lathe::fuzz
