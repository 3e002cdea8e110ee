// RunMemory: peaks that begin again with each part.
#include "lathe/train/run_memory.h"

#include <algorithm>

namespace lathe::train {

void RunMemory::begin_part() {
  before_ = peak();
  profile::reset_memory_peak(device_);
}

profile::MemoryUse RunMemory::part(bool steps) const {
  profile::MemoryUse out = profile::memory_use(device_);
  const profile::MemoryUse& graph = steps ? steps_graph_ : evaluation_graph_;
  if (out.peak < graph.peak) {
    out.peak = graph.peak;
    out.at_peak = graph.at_peak;
  }
  return out;
}

int64_t RunMemory::peak() const { return std::max(before_, profile::memory_use(device_).peak); }

}  // namespace lathe::train
