// Adds up ranges by name, from the nesting of each thread.
#include "lathe/profile/averages.h"

#include <algorithm>
#include <array>
#include <map>
#include <tuple>

#include "lathe/core/error.h"
#include "lathe/core/hooks/stack.h"

namespace lathe::profile {

namespace {

/// What the ranges directly inside one range add up to.
struct Inner {
  int64_t cpu_ns = 0, device_ns = 0;
  MemoryChange memory;
  bool moves_bytes = false;
};

/// user_call() of a stack; looking up names is slow, and the same stacks return.
class Sources {
 public:
  const std::string& of(const std::vector<void*>& stack) {
    const auto [at, is_new] = texts_.try_emplace(stack);
    if (is_new) at->second = user_call(stack);
    return at->second;
  }

 private:
  std::map<std::vector<void*>, std::string> texts_;
};

using Key = std::tuple<std::string, Kind, std::string, std::string>;

class Sums {
 public:
  Sums(const Recording& recording, const GroupOptions& options)
      : options_(options), has_activities_(recording.has_activities) {
    for (const ThreadRecords& thread : recording.threads) add(thread.records);
    for (const cuda::DeviceActivity& activity : recording.activities) add(activity);
  }

  std::vector<Average> rows() && { return std::move(rows_); }

 private:
  size_t row_of(const Record& record) {
    const std::string inputs = options_.group_by_shape ? inputs_text(record.inputs) : "";
    const std::string source = options_.group_by_stack ? sources_.of(record.stack) : "";
    Key key{display_name(record), record.kind, inputs, source};
    const auto [at, is_new] = places_.try_emplace(key, rows_.size());
    if (is_new) {
      Average& row = rows_.emplace_back();
      std::tie(row.name, row.kind, row.inputs, row.source) = key;
    }
    return at->second;
  }

  void add(const std::vector<Record>& records) {
    const std::vector<int64_t> parents = parents_of(records);
    std::vector<Inner> inner(records.size());
    std::vector<size_t> rows(records.size());
    for (size_t i = 0; i < records.size(); ++i) rows[i] = row_of(records[i]);
    for (size_t i = 0; i < records.size(); ++i) {  // inner ranges first
      const Record& record = records[i];
      const int64_t cpu = record.end_ns - record.begin_ns;
      const int64_t own = std::max<int64_t>(record.device_ns, 0);
      const int64_t device = has_activities_         ? own + inner[i].device_ns
                             : record.device_ns >= 0 ? own
                                                     : inner[i].device_ns;
      bool is_outermost = true;
      for (int64_t p = parents[i]; p >= 0; p = parents[static_cast<size_t>(p)])
        is_outermost = is_outermost && rows[static_cast<size_t>(p)] != rows[i];
      add(rows_[rows[i]], record, inner[i], device, is_outermost);
      if (parents[i] < 0) continue;
      Inner& outer = inner[static_cast<size_t>(parents[i])];
      outer.cpu_ns += cpu;
      outer.device_ns += device;
      outer.memory.host += record.memory.host;
      outer.memory.device += record.memory.device;
      outer.moves_bytes |= record.bytes > 0 || inner[i].moves_bytes;
    }
  }

  /// A kernel or a copy: a row with no time on the CPU. Its time is in its op's row, too.
  void add(const cuda::DeviceActivity& activity) {
    Key key{activity.name, Kind::kDevice, "", ""};
    const auto [at, is_new] = places_.try_emplace(key, rows_.size());
    if (is_new) {
      Average& row = rows_.emplace_back();
      row.name = activity.name;
      row.kind = Kind::kDevice;
    }
    Average& row = rows_[at->second];
    ++row.calls;
    row.device_total_ns += activity.end_ns - activity.begin_ns;
    row.bytes += activity.bytes;
  }

  static void add(Average& row, const Record& record, const Inner& inner, int64_t device,
                  bool is_outermost) {
    const int64_t cpu = record.end_ns - record.begin_ns;
    ++row.calls;
    row.self_cpu_ns += cpu - inner.cpu_ns;
    row.self_device_ns += std::max<int64_t>(device - inner.device_ns, 0);
    row.self_memory.host += record.memory.host - inner.memory.host;
    row.self_memory.device += record.memory.device - inner.memory.device;
    if (is_outermost) {
      row.cpu_total_ns += cpu;
      row.device_total_ns += device;
      row.memory.host += record.memory.host;
      row.memory.device += record.memory.device;
    }
    row.flops += record.flops;
    // An op made of other ops moves what they move, and they have said so.
    if (record.flops > 0 || !inner.moves_bytes) row.bytes += record.bytes;
  }

  const GroupOptions options_;
  const bool has_activities_;
  Sources sources_;
  std::map<Key, size_t> places_;
  std::vector<Average> rows_;
};

constexpr std::pair<std::string_view, SortBy> kSortNames[] = {
    {"self_cpu_time_total", SortBy::kSelfCpuTime},
    {"cpu_time_total", SortBy::kCpuTime},
    {"self_cuda_time_total", SortBy::kSelfDeviceTime},
    {"cuda_time_total", SortBy::kDeviceTime},
    {"count", SortBy::kCalls},
    {"self_memory", SortBy::kSelfMemory},
    {"flops", SortBy::kFlops},
};

}  // namespace

SortBy sort_by_name(std::string_view name) {
  std::string known;
  for (const auto& [text, value] : kSortNames) {
    if (text == name) return value;
    known += concat(known.empty() ? "" : ", ", text);
  }
  LATHE_FAIL(ValueError, "profiler: no column \"", name, "\" to sort by; there are ", known);
}

std::string inputs_text(const std::vector<Operand>& inputs) {
  std::string text;
  for (const Operand& input : inputs)
    text += concat(text.empty() ? "" : ", ", input.dtype, input.shape);
  return text;
}

Averages::Averages(const Recording& recording, const GroupOptions& options)
    : rows_(Sums(recording, options).rows()) {}

const Average* Averages::find(std::string_view name) const {
  const Average* best = nullptr;
  for (const Average& row : rows_) {
    if (row.name == name && (best == nullptr || row.self_cpu_ns > best->self_cpu_ns)) best = &row;
  }
  return best;
}

int64_t Averages::self_cpu_ns() const {
  int64_t sum = 0;
  for (const Average& row : rows_) sum += row.self_cpu_ns;
  return sum;
}

int64_t Averages::self_device_ns() const {
  int64_t sum = 0;
  for (const Average& row : rows_) sum += row.self_device_ns;
  return sum;
}

int64_t Averages::flops() const {
  int64_t sum = 0;
  for (const Average& row : rows_) sum += row.flops;
  return sum;
}

}  // namespace lathe::profile
