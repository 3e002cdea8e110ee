// Dtype, device and layout changes. Contracts: cast.h; values are moved by core/copy.
#include "lathe/ops/cast.h"

#include "lathe/autograd/record.h"
#include "lathe/core/copy.h"

namespace lathe {

using autograd::Needs;
using autograd::record;

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  Tensor y = empty_like(x, dtype);
  copy_values(y, x);
  record("cast", y, {x},
         [from = x.dtype()](const Tensor& dy, const Needs&) { return Tensors{cast(dy, from)}; });
  return y;
}

Tensor to_device(const Tensor& x, Device device) {
  if (x.device() == device) return x;
  Tensor y = empty_strided(x.shape(), contiguous_strides(x.shape()), x.dtype(), device);
  copy_values(y, x);
  record("to_device", y, {x}, [from = x.device()](const Tensor& dy, const Needs&) {
    return Tensors{to_device(dy, from)};
  });
  return y;
}

static Tensor copy_as(const char* op, const Tensor& x, const Tensor& out) {
  copy_values(out, x);
  record(op, out, {x}, [](const Tensor& dy, const Needs&) { return Tensors{dy}; });
  return out;
}

Tensor contiguous(const Tensor& x, MemoryFormat format) {
  if (x.is_contiguous(format)) return x;
  const Strides strides =
      format == kChannelsLast ? channels_last_strides(x.shape()) : contiguous_strides(x.shape());
  return copy_as("contiguous", x, empty_strided(x.shape(), strides, x.dtype(), x.device()));
}

Tensor clone(const Tensor& x) { return copy_as("clone", x, empty_like(x)); }

}  // namespace lathe
