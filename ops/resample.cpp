// The linear op behind average pooling and upsampling. Kernel: resample_cpu.cpp. Contract:
// resample.h.
#include "lathe/ops/resample.h"

#include "lathe/autograd/record.h"
#include "lathe/core/dispatch.h"
#include "lathe/ops/cast.h"

namespace lathe {

using autograd::Needs;

Tensor resample(const char* op, const Tensor& x_in, const PlaneMapPtr& map) {
  LATHE_CHECK(DTypeError, is_floating(x_in.dtype()), op, ": x must be floating (x: ", x_in, ")");
  const bool nhwc = !x_in.is_contiguous() && x_in.is_contiguous(kChannelsLast);
  const Tensor x = contiguous(x_in, nhwc ? kChannelsLast : kContiguous);
  const Shape shape{x.dim(0), x.dim(1), map->rows.out(), map->columns.out()};
  Tensor y = empty_strided(shape, nhwc ? channels_last_strides(shape) : contiguous_strides(shape),
                           x.dtype(), x.device());
  LATHE_DISPATCH(x.device(), resample(y, x, *map));
  autograd::record(op, y, {x}, [op, map](const Tensor& dy, const Needs&) {
    const auto adjoint =
        std::make_shared<const PlaneMap>(PlaneMap{transposed(map->rows), transposed(map->columns)});
    return Tensors{resample(op, dy, adjoint)};
  });
  return y;
}

}  // namespace lathe
