// Options of tensors: how a new one is made, the order in memory, what a reduction keeps.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

#include "lathe/core/device.h"
#include "lathe/core/dtype.h"

namespace lathe {

/// Order of the elements in memory. kChannelsLast is NHWC: the shape stays [N,C,H,W], but the
/// channel has stride 1.
enum class MemoryFormat : uint8_t { kContiguous, kChannelsLast };
inline constexpr MemoryFormat kContiguous = MemoryFormat::kContiguous,
                              kChannelsLast = MemoryFormat::kChannelsLast;

/// How a new tensor is made. Without a dtype it gets the default dtype, or the natural one (i64 for
/// arange(24)).
struct TensorOptions {
  std::optional<DType> dtype = {};
  Device device = kCPU;
  bool requires_grad = false;
  bool pinned = false;  // host memory that GPUs copy to and from by themselves; needs a GPU
};

struct ReduceOptions {
  bool keepdim = false;  // true: a reduced dimension stays, with size 1
};
/// true or false in place of ReduceOptions: x.sum(1, true). Nothing else is taken for it, so that
/// x.sum(0, 1) does not compile.
template <class T>
concept KeepDim = std::same_as<T, bool>;

/// TensorOptions of a tensor that wants a gradient: ones({2, 2}, requires_grad()).
inline TensorOptions requires_grad(bool value = true) { return {.requires_grad = value}; }

}  // namespace lathe
