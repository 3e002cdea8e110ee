// Changes of dtype, device and layout, with their gradients; core/copy moves the values. Contracts:
// cast.h.
#include "lathe/ops/cast.h"

#include "lathe/autograd/half_copy.h"
#include "lathe/autograd/record.h"
#include "lathe/core/copy.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/memory_format.h"
#include "lathe/ops/views.h"

namespace lathe {

using autograd::Needs;
using autograd::record;

static void record_cast(const Tensor& y, const Tensor& x) {
  record("cast", y, {x},
         [from = x.dtype()](const Tensor& dy, const Needs&) { return Tensors{cast(dy, from)}; });
}

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  const profile::OpRange range("cast", {x});
  profile::note_arguments(dtype);
  Tensor y = empty_like(x, dtype);
  copy_values(y, x);
  record_cast(y, x);
  return y;
}

Tensor amp::cast_to_read(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  const profile::OpRange range("cast", {x});
  profile::note_arguments(dtype);
  Tensor y = half_copy(x, dtype);
  if (!y.defined()) copy_values(y = empty_like(x, dtype), x);
  record_cast(y, x);
  return y;
}

Tensor to_device(const Tensor& x, Device device) {
  if (x.device() == device) return x;
  const profile::OpRange range("to_device", {x});
  Tensor y = empty_in(memory_format_of(x), x.shape(), x.dtype(), device);
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
  const bool dense = x.is_contiguous(format);
  if (dense && format == kContiguous) return x;
  const Strides strides = dense_strides(x.shape(), format);
  if (dense) {
    // One channel or one pixel: the memory fits already, but the strides must tell later ops which
    // order is meant.
    return x.strides() == strides ? x : as_strided(x, x.shape(), strides, x.offset());
  }
  const profile::OpRange range("contiguous", {x});
  profile::note_arguments(format);
  return copy_as("contiguous", x, empty_strided(x.shape(), strides, x.dtype(), x.device()));
}

Tensor clone(const Tensor& x) {
  const profile::OpRange range("clone", {x});
  return copy_as("clone", x, empty_like(x));
}

}  // namespace lathe
