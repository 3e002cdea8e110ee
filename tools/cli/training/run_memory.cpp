// RunMemory: peaks that begin again with each part.
#include "lathe/tools/cli/training/run_memory.h"

#include <algorithm>

#include "lathe/tools/cli/formatted.h"

namespace lathe::cli {

std::string memory_column(profile::MemoryTag tag) {
  std::string name(profile::name_of(tag));
  std::ranges::replace(name, ' ', '_');
  return formatted("memory_peak_{}", name);
}

Row& add_memory(Row& row, const profile::MemoryUse& memory) {
  row.add("memory_peak_bytes", memory.peak);
  for (int t = 0; t < profile::kMemoryTags; ++t) {
    const auto tag = static_cast<profile::MemoryTag>(t);
    row.add(memory_column(tag), memory.of_peak(tag));
  }
  return row;
}

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

}  // namespace lathe::cli
