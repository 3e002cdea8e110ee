// The ledger of a step: its launches at any batch, from those at two small ones.
#pragma once

#include <cstdint>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/train/plan/launch_list.h"

namespace lathe::plan {

/// The launches of a step of a small batch.
struct SmallStep {
  int64_t batch = 0;
  std::vector<Launch> launches;
};

/// The launches at `batch`: each number lies on the straight line through its two small values.
/// throws: StateError if the two steps do not make the same launches.
LATHE_API std::vector<Launch> launches_at(int64_t batch, const SmallStep& a, const SmallStep& b);

/// Sums of one kind of launches.
struct KindSum {
  int64_t launches = 0;
  double bytes = 0, extra_bytes = 0, flops = 0;
};
LATHE_API KindSum sum_of(const std::vector<Launch>& launches, LaunchKind kind);

}  // namespace lathe::plan
