// The clock, display names, and how ranges are nested.
#include "lathe/core/hooks/record.h"

#include <chrono>

namespace lathe::profile {

int64_t now_ns() noexcept {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

std::string display_name(const Record& record) {
  std::string name = record.name;
  if (record.kind == Kind::kBackward) name += " backward";
  if (record.kind == Kind::kOptimizer) name += ".step";
  return name;
}

std::vector<int64_t> parents_of(const std::vector<Record>& records) {
  // Ranges stand in the order in which they ended, so a parent follows its children: seen from the
  // end, the latest range of each smaller depth is the one that is still open.
  std::vector<int64_t> parents(records.size(), -1);
  std::vector<int64_t> latest;  // by depth
  for (auto i = static_cast<int64_t>(records.size()) - 1; i >= 0; --i) {
    const Record& record = records[static_cast<size_t>(i)];
    latest.resize(record.depth + size_t{1}, -1);
    latest[record.depth] = i;
    for (size_t depth = record.depth; depth-- > 0;) {
      const int64_t at = latest[depth];
      if (at < 0 || records[static_cast<size_t>(at)].begin_ns > record.begin_ns) continue;
      parents[static_cast<size_t>(i)] = at;
      break;
    }
  }
  return parents;
}

}  // namespace lathe::profile
