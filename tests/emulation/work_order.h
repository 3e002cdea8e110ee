// Which queued work comes before which, whenever it runs: by its stream, by events, and by a host
// that waited. Kept with each call of the emulated runtime; see cuda_runtime_machine.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>

namespace lathe::emulation {

/// A set of earlier work: of each stream all up to a number. Work is numbered as it is queued.
struct WorkSet {
  uint64_t all = 0;                        // of every stream up to here
  std::map<uint64_t, uint64_t> of_stream;  // and of these, up to there

  void join(const WorkSet& other) {
    all = std::max(all, other.all);
    for (const auto& [stream, number] : other.of_stream) {
      uint64_t& mine = of_stream[stream];
      mine = std::max(mine, number);
    }
    std::erase_if(of_stream, [this](const auto& entry) { return entry.second <= all; });
  }
  bool holds(uint64_t stream, uint64_t number) const {
    const auto at = of_stream.find(stream);
    return number <= all || (at != of_stream.end() && number <= at->second);
  }
};

/// Work that was queued: all that comes before it.
struct Work {
  uint64_t stream = 0, number = 0;  // 0: not numbered
  WorkSet before;
};

}  // namespace lathe::emulation
