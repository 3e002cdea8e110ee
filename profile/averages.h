// key_averages: the ranges of a recording, added up by name.
//
// Self time is a range's time without that of the ranges inside it. So the self times of all rows
// add up to the time in which any range was open. Total time includes the ranges inside. If one
// range of a row is inside another, their common time counts once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/hooks/record.h"

namespace lathe::profile {

struct GroupOptions {
  bool group_by_shape = false;  // a row for each list of input shapes
  bool group_by_stack = false;  // a row for each call in the program
};

/// A row of the table: all ranges of one name (and shape, and call).
struct Average {
  std::string name;
  Kind kind = Kind::kOp;
  std::string inputs;  // "f32[128,64,32,32], f32[64,64,3,3]"; with group_by_shape
  std::string source;  // "train.cpp:42 (main)", of a backward range that of its forward call
  int64_t calls = 0;
  int64_t self_cpu_ns = 0, cpu_total_ns = 0;
  // GPU; 0 if not measured. A kernel's own row has only the total: its self time belongs to the op
  // that queued it.
  int64_t self_device_ns = 0, device_total_ns = 0;
  MemoryChange self_memory, memory;  // bytes taken less bytes given back
  int64_t flops = 0;  // floating-point operations; 2 for each multiplication with addition
  int64_t bytes = 0;  // inputs and outputs, each once; 0 for ops that are made of other ops
};

enum class SortBy : uint8_t {
  kSelfCpuTime,
  kCpuTime,
  kSelfDeviceTime,
  kDeviceTime,
  kCalls,
  kSelfMemory,
  kFlops,
};

/// The order with this name of torch.profiler: "self_cpu_time_total", "cuda_time_total", "count",
/// ….
/// throws: ValueError that lists the names.
LATHE_API SortBy sort_by_name(std::string_view name);

/// The peak rates of a device, for "% of peak"; 0 if not known.
struct Peaks {
  double flops_per_second = 0, bytes_per_second = 0;
};

struct TableOptions {
  SortBy sort_by = SortBy::kSelfCpuTime;
  int64_t rows = 100;      // the most rows; 0: all
  Peaks peaks = {};        // of the CPU, or of the GPU for ops that ran there
  size_t name_width = 55;  // longer names are cut
};

class LATHE_API Averages {
 public:
  Averages(const Recording& recording, const GroupOptions& options);
  /// Takes rows that were made elsewhere.
  explicit Averages(std::vector<Average> rows) : rows_(std::move(rows)) {}

  /// In no particular order.
  const std::vector<Average>& rows() const& { return rows_; }
  std::vector<Average> rows() && { return std::move(rows_); }
  /// The row of this name with the most self time; null if there is none.
  const Average* find(std::string_view name) const;
  int64_t self_cpu_ns() const;  // of all rows
  int64_t self_device_ns() const;
  int64_t flops() const;

  /// The table as text: the columns of torch.profiler, and the achieved rates (docs/profiler.md).
  std::string table(const TableOptions& options = {}) const;

 private:
  std::vector<Average> rows_;
};

/// "f32[2,3], i64[2]".
LATHE_API std::string inputs_text(const std::vector<Operand>& inputs);

}  // namespace lathe::profile
