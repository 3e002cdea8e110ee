// What the profiler keeps of a range: the plain data that tables and traces are made of.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/device_activity.h"
#include "lathe/core/dtype.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/shape.h"

namespace lathe::profile {

/// An input of an op.
struct Operand {
  DType dtype;
  Shape shape;

  bool operator==(const Operand&) const = default;
};

/// Bytes that a thread took less those that it gave back.
struct MemoryChange {
  int64_t host = 0, device = 0;
};

/// A finished range. Its thread's ranges are nested: a range that began later ended earlier.
struct Record {
  const char* name = "";  // of a backward range: the op's; it lives as long as the recording
  Kind kind = Kind::kOp;
  uint32_t depth = 0;  // how many recorded ranges of its thread were open when it began
  int64_t begin_ns = 0, end_ns = 0;  // now_ns()
  uint64_t sequence = 0;  // number of the autograd node: that of an op and of its gradient is equal
  int64_t flops = 0, bytes = 0;  // of the range itself, without the ranges inside it
  MemoryChange memory = {};      // inside the range, inner ranges included
  MemoryChange in_use = {};      // by all threads, when it ended
  // On a GPU; -1: not measured. With a recording's `activities` it is the time of those that the
  // range itself queued, otherwise that from its begin to its end.
  int64_t device_ns = -1;
  int64_t device_begin_ns = 0, device_end_ns = 0;  // the same in time of now_ns()
  int device = -1;                                 // the GPU's index
  uint64_t id = 0;                                 // that of its activities; 0: none
  std::vector<Operand> inputs = {};                // with record_shapes
  // With with_stack: return addresses, innermost first. A gradient has those of its op, if that was
  // recorded too. So have the ops that it is made of, if the op ran on the same thread.
  std::vector<void*> stack = {};
};

/// The ranges of one thread in the order in which they ended.
struct ThreadRecords {
  uint64_t thread = 0;  // the system's number of the thread
  std::string name;     // what the system calls it
  std::vector<Record> records;
};

/// Everything that was recorded between a start and a stop.
struct Recording {
  int64_t begin_ns = 0, end_ns = 0;
  std::vector<ThreadRecords> threads;
  std::vector<cuda::DeviceActivity> activities = {};  // of the GPUs, if they were recorded
  bool has_activities = false;
  uint64_t dropped = 0;  // ranges that did not fit the limit or the memory
  std::vector<std::shared_ptr<const void>> keeps = {};  // the memory of names
};

/// Nanoseconds of the one clock of all ranges (steady, from an arbitrary point).
LATHE_API int64_t now_ns() noexcept;

/// "conv2d", "conv2d backward", "SGD.step".
LATHE_API std::string display_name(const Record& record);

/// The index of each record's parent among the thread's records; -1 for those without one.
LATHE_API std::vector<int64_t> parents_of(const std::vector<Record>& records);

}  // namespace lathe::profile
