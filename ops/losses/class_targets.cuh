// Class targets as the kernels of the losses read them. For .cu files only.
#pragma once

#include "lathe/core/gpu/launch.h"
#include "lathe/ops/losses/class_targets.h"

namespace lathe::cuda {

/// kBad: neither a class nor ignore_index; check_class_range has set the device's error flag.
enum class TargetKind : uint8_t { kCounts, kIgnored, kBad };

/// A is the dtype of the losses.
template <class A>
struct DeviceTargets {
  const int64_t* index;
  const A* weight;  // null: all 1
  int64_t classes, ignore_index;

  explicit DeviceTargets(const ClassTargets& t)
      : index(t.index.data<int64_t>()),
        weight(t.weight.defined() ? t.weight.data<A>() : nullptr),
        classes(t.classes),
        ignore_index(t.ignore_index) {}

  __device__ TargetKind kind(int64_t row) const {
    if (index[row] == ignore_index) return TargetKind::kIgnored;
    return index[row] >= 0 && index[row] < classes ? TargetKind::kCounts : TargetKind::kBad;
  }
  __device__ A class_weight(int64_t c) const { return weight == nullptr ? A(1) : weight[c]; }
};

}  // namespace lathe::cuda
