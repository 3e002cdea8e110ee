// RunMemory: what tensors hold while a training runs, part by part, for its rows of metrics.
#pragma once

#include <cstdint>

#include "lathe/core/hooks/memory_use.h"

namespace lathe::train {

/// The peaks of a device's memory. It begins new ones (profile::reset_memory_peak), so only one
/// can look at a device.
class LATHE_API RunMemory {
 public:
  explicit RunMemory(Device device) : device_(device) { profile::reset_memory_peak(device); }

  /// A part of the run begins: the steps of a row, or an evaluation.
  void begin_part();
  /// What the part holds so far, at its peak and now. `steps`: it is one of steps.
  profile::MemoryUse part(bool steps) const;
  /// Steps, or evaluations, launch a CUDA graph from now on, whose memory was allocated in the
  /// present part. A launch allocates nothing, so each such part has that peak if its own is lower.
  void part_is_graph(bool steps) { graph_of(steps) = part(steps); }
  /// Bytes at the highest peak since this was made.
  int64_t peak() const;

 private:
  profile::MemoryUse& graph_of(bool steps) { return steps ? steps_graph_ : evaluation_graph_; }

  Device device_;
  profile::MemoryUse steps_graph_ = {}, evaluation_graph_ = {};
  int64_t before_ = 0;  // the highest peak of the parts that have ended
};

}  // namespace lathe::train
