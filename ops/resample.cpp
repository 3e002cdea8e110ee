// The linear op behind average pooling and upsampling: checks and gradient. Contract: resample.h;
// kernels: window_kernels/resample_cpu.cpp, resample_cuda.cu.
#include "lathe/ops/resample.h"

#include "lathe/autograd/record.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/memory_format.h"

namespace lathe {

using autograd::Needs;

/// Calls `get_map` after y has its memory.
template <class GetMap>
static Tensor apply(const char* op, const Tensor& x_in, Pair out, GetMap get_map) {
  LATHE_CHECK(DTypeError, is_floating(x_in.dtype()), op, ": x must be floating (x: ", x_in, ")");
  const MemoryFormat format = memory_format_of(x_in);
  const Shape shape{x_in.dim(0), x_in.dim(1), out.rows, out.cols};
  Tensor y = empty_in(format, shape, x_in.dtype(), x_in.device());
  const PlaneMapPtr map = get_map();
  const Tensor x = contiguous(x_in, format);
  LATHE_DISPATCH(x.device(), resample(y, x, *map));
  autograd::record(op, y, {x}, [op, map](const Tensor& dy, const Needs&) {
    return Tensors{resample(op, dy, {map->rows.in, map->columns.in}, [&] {
      return PlaneMap{transposed(map->rows), transposed(map->columns)};
    })};
  });
  return y;
}

Tensor resample(const char* op, const Tensor& x, const PlaneMapPtr& map) {
  const profile::OpRange range("resample", {x});
  return apply(op, x, {map->rows.out(), map->columns.out()}, [&] { return map; });
}

Tensor resample(const char* op, const Tensor& x, Pair out, FunctionRef<PlaneMap()> make_map) {
  const profile::OpRange range("resample", {x});
  return apply(op, x, out, [&]() -> PlaneMapPtr {
    try {
      return std::make_shared<const PlaneMap>(make_map());
    } catch (const OutOfMemoryError& e) {
      LATHE_FAIL(OutOfMemoryError, op, ": ", e.message(), " (x: ", x, ", out: ", out, ")");
    }
  });
}

}  // namespace lathe
