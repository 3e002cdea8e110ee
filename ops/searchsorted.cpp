// searchsorted and bucketize: checks. Contracts: searchsorted.h; kernels:
// index_kernels/searchsorted_cpu.cpp, searchsorted_cuda.cu.
#include "lathe/ops/searchsorted.h"

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/views.h"

namespace lathe {

/// The dtype that is searched in: it holds every number of `dtype` exactly.
static DType search_dtype(DType dtype) {
  if (!is_floating(dtype)) return kI64;
  return dtype == kF64 ? kF64 : kF32;
}

static Tensor search(const char* op, const Tensor& sorted, const Tensor& values, bool right) {
  const profile::OpRange range(op, {sorted, values});
  bool fits = sorted.ndim() == 1;
  if (!fits && sorted.ndim() > 1 && sorted.ndim() == values.ndim()) {
    Shape shape = values.shape();
    shape[shape.size() - 1] = sorted.dim(-1);
    fits = sorted.shape() == shape;
  }
  LATHE_CHECK(ShapeError, fits, op,
              ": the sorted sequence must be [n], or have the values' shape but for the last size "
              "(sorted: ",
              sorted, ", values: ", values, ")");
  check_devices(op, sorted, values);
  const NoGrad off;
  const DType dtype = search_dtype(result_dtype(sorted, values));
  const Device device = sorted.device().is_cuda() ? sorted.device() : values.device();
  const int64_t n = sorted.dim(-1), m = sorted.ndim() == 1 ? values.numel() : values.dim(-1);
  const int64_t rows = sorted.ndim() == 1 ? 1 : values.numel() / std::max<int64_t>(m, 1);
  Tensor out = empty(values.shape(), {.dtype = kI64, .device = device});
  if (out.numel() == 0) return out;
  const auto prepare = [&](const Tensor& t, int64_t columns) {
    return reshape(contiguous(to_device(cast(t, dtype), device)), {rows, columns});
  };
  const Tensor table = prepare(sorted, n), wanted = prepare(values, m);
  LATHE_DISPATCH(device, searchsorted(view(out, {rows, m}), table, wanted, right));
  profile::note_output(out);
  return out;
}

Tensor searchsorted(const Tensor& sorted, const Tensor& values, const SearchOptions& opt) {
  return search("searchsorted", sorted, values, opt.right);
}

Tensor bucketize(const Tensor& values, const Tensor& boundaries, const SearchOptions& opt) {
  LATHE_CHECK(ShapeError, boundaries.ndim() == 1,
              "bucketize: boundaries must be [n] (boundaries: ", boundaries, ")");
  return search("bucketize", boundaries, values, opt.right);
}

}  // namespace lathe
