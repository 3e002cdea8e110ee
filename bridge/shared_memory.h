// What the bridges to other libraries have in common: a tensor over memory with strides, and which
// tensors' memory may be handed out. Header-only, and internal: eigen.h and opencv.h are what
// programs include.
#pragma once

#include <functional>
#include <utility>

#include "lathe/core/shape.h"
#include "lathe/core/strided_extent.h"
#include "lathe/core/tensor.h"

namespace lathe::bridge::detail {

/// A tensor over memory that begins at `data`; strides are in elements. `release` runs when the
/// last tensor over the memory is gone.
/// throws: ValueError for a negative stride. If it throws, `release` never runs.
inline Tensor tensor_over(void* data, const Shape& shape, const Strides& strides, DType dtype,
                          std::function<void()> release, const char* name) {
  for (int d = 0; d < shape.size() && numel_of(shape) > 0; ++d) {
    LATHE_CHECK(ValueError, strides[d] >= 0, name, ": negative strides are not supported (shape ",
                shape, ", strides ", strides, ")");
  }
  const int64_t elements =
      strided_extent(shape, strides)
          .value_or_throw(name, ": shape ", shape, " with strides ", strides, " overflows");
  return alias(from_blob(data, {elements}, dtype, kCPU, std::move(release)), shape, strides, 0);
}

/// Checks that another library may share the tensor's memory.
/// throws: DeviceError unless the tensor is on the CPU; StateError if it requires grad.
inline void check_shareable(const Tensor& t, const char* name) {
  LATHE_CHECK(DeviceError, t.device().is_cpu(), name, ": the tensor must be on the CPU (t: ", t,
              "); cpu() copies it");
  LATHE_CHECK(StateError, !t.requires_grad(), name,
              ": other libraries know nothing of the graph: pass detach() (t: ", t, ")");
}

}  // namespace lathe::bridge::detail
