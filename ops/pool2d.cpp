// Pooling: checks and gradients. Contracts: pool2d.h; kernels: window_kernels/pool2d_cpu.cpp and
// pool2d_cuda.cu, and for averages those of resample.h.
#include "lathe/ops/pool2d.h"

#include <array>
#include <limits>

#include "lathe/autograd/record.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/memory_format.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/resample.h"
#include "lathe/ops/views.h"

namespace lathe {

using autograd::Needs;
using autograd::Saved;

namespace {

void check_sizes(const char* op, const Tensor& x) {
  LATHE_CHECK(ShapeError, x.ndim() == 4 && x.dim(2) > 0 && x.dim(3) > 0, op,
              ": x must be [N,C,H,W] or [C,H,W] with H and W above 0 (x: ", x, ")");
}

void check_planes(const char* op, const Tensor& x) {
  check_sizes(op, x);
  LATHE_CHECK(DTypeError, is_floating(x.dtype()), op, ": x must be floating (x: ", x, ")");
}

/// Checks the options of a window. Returns the stride, with 0 replaced by the kernel's size.
Pair check_window(const char* op, Pair kernel, Pair stride, Pair pad, Pair dilation) {
  LATHE_CHECK(ValueError, kernel > 0, op, ": kernel must be positive, got ", kernel);
  LATHE_CHECK(ValueError, dilation > 0, op, ": dilation must be positive, got ", dilation);
  LATHE_CHECK(ValueError, stride >= 0, op, ": stride must not be negative, got ", stride);
  LATHE_CHECK(ValueError, pad >= 0 && pad.rows <= kernel.rows / 2 && pad.cols <= kernel.cols / 2,
              op, ": pad must be between 0 and half the kernel, got ", pad, " for a kernel of ",
              kernel);
  // 32 bits, so that positions are computed without overflow.
  constexpr int64_t kLargest = std::numeric_limits<int32_t>::max();
  for (const Pair& p : {kernel, dilation, stride}) {
    LATHE_CHECK(ValueError, p.rows <= kLargest && p.cols <= kLargest, op, ": kernel ", kernel,
                ", stride ", stride, " and dilation ", dilation, " must be below 2^31");
  }
  return {stride.rows == 0 ? kernel.rows : stride.rows,
          stride.cols == 0 ? kernel.cols : stride.cols};
}

void check_size(const char* op, const Tensor& x, Pair out, Pair kernel, Pair dilation) {
  LATHE_CHECK(ShapeError, out > 0, op, ": a window of ", kernel, " (dilation ", dilation,
              ") is larger than the padded input (x: ", x, ")");
}

Tensor index_scatter(const Tensor& dy, const Tensor& index, const Shape& shape,
                     const MaxPool2dOptions& opt);

/// y[n,c,p,q] = x[n,c,index[n,c,p,q]]: the gradient of index_scatter, for second derivatives.
Tensor index_gather(const Tensor& x_in, const Tensor& index, const MaxPool2dOptions& opt) {
  const MemoryFormat format = memory_format_of(index);
  const Tensor x = contiguous(x_in, format);
  Tensor y = empty_in(format, index.shape(), x.dtype(), x.device());
  LATHE_DISPATCH(x.device(), max_pool2d_gather(y, x, index));
  autograd::record("max_pool2d_gather", y, {x},
                   [index = Saved(index), opt, shape = x.shape()](const Tensor& dy, const Needs&) {
                     return Tensors{index_scatter(dy, index.get(), shape, opt)};
                   });
  return y;
}

/// Its adjoint: dx[n,c,index] += dy.
Tensor index_scatter(const Tensor& dy_in, const Tensor& index, const Shape& shape,
                     const MaxPool2dOptions& opt) {
  const MemoryFormat format = memory_format_of(index);
  const Tensor dy = contiguous(dy_in, format);
  Tensor dx = empty_in(format, shape, dy.dtype(), dy.device());
  LATHE_DISPATCH(dy.device(), max_pool2d_scatter(dx, dy, index, opt));
  autograd::record("max_pool2d_scatter", dx, {dy},
                   [index = Saved(index), opt](const Tensor& g, const Needs&) {
                     return Tensors{index_gather(g, index.get(), opt)};
                   });
  return dx;
}

/// The values, and their positions as i32 if they are `wanted` here or for the gradient: on a GPU
/// they are half of what is written, or more.
ValuesAndIndices pool_max(const Tensor& x_in, MaxPool2dOptions opt, bool wanted) {
  const char* const op = "max_pool2d";
  check_planes(op, x_in);
  const Pair size = detail::max_pool2d_size(op, x_in, opt);

  const MemoryFormat format = memory_format_of(x_in);
  const Tensor x = contiguous(x_in, format);
  const Shape shape{x.dim(0), x.dim(1), size.rows, size.cols};
  Tensor y = empty_in(format, shape, x.dtype(), x.device());
  const autograd::TensorRef input = x;
  Tensor index;
  if (wanted || x.device().is_cpu() || autograd::wants_record(&input, 1))
    index = empty_in(format, shape, kI32, x.device());
  LATHE_DISPATCH(x.device(), max_pool2d(y, index, x, opt));

  autograd::record(op, y, {x},
                   [index = Saved(index), opt, in = x.shape()](const Tensor& dy, const Needs&) {
                     return Tensors{index_scatter(dy, index.get(), in, opt)};
                   });
  return {y, index};
}

}  // namespace

Pair detail::max_pool2d_size(const char* op, const Tensor& x, MaxPool2dOptions& opt) {
  check_sizes(op, x);
  opt.stride = check_window(op, opt.kernel, opt.stride, opt.pad, opt.dilation);
  const auto [h, w] = std::array{x.dim(2), x.dim(3)};
  LATHE_CHECK(ShapeError, h <= std::numeric_limits<int32_t>::max() / w, op,
              ": a plane has more than 2^31 elements (x: ", x, ")");
  const int64_t p = pooled_size(
      h, {opt.kernel.rows, opt.stride.rows, opt.pad.rows, opt.dilation.rows, opt.ceil_mode});
  const int64_t q = pooled_size(
      w, {opt.kernel.cols, opt.stride.cols, opt.pad.cols, opt.dilation.cols, opt.ceil_mode});
  check_size(op, x, {p, q}, opt.kernel, opt.dilation);
  return {p, q};
}

Tensor max_pool2d(const Tensor& x, const MaxPool2dOptions& options) {
  if (x.ndim() == 3) return squeeze(max_pool2d(unsqueeze(x, 0), options), 0);
  const profile::OpRange range("max_pool2d", {x});
  profile::note_arguments(options);
  return pool_max(x, options, false).values;
}

ValuesAndIndices max_pool2d_with_indices(const Tensor& x, const MaxPool2dOptions& options) {
  const profile::OpRange range("max_pool2d_with_indices", {x});
  check_floating("max_pool2d_with_indices", x);
  if (x.ndim() == 3) {
    const auto [values, index] = max_pool2d_with_indices(unsqueeze(x, 0), options);
    return {squeeze(values, 0), squeeze(index, 0)};
  }
  const auto [values, index] = pool_max(x, options, true);
  return {values, cast(index, kI64)};
}

Tensor avg_pool2d(const Tensor& x, const AvgPool2dOptions& opt) {
  if (x.ndim() == 3) return squeeze(avg_pool2d(unsqueeze(x, 0), opt), 0);
  const profile::OpRange range("avg_pool2d", {x});
  profile::note_arguments(opt);
  const char* const op = "avg_pool2d";
  check_planes(op, x);
  const Pair stride = check_window(op, opt.kernel, opt.stride, opt.pad, 1);
  const Window1d rows{opt.kernel.rows, stride.rows, opt.pad.rows, 1, opt.ceil_mode};
  const Window1d columns{opt.kernel.cols, stride.cols, opt.pad.cols, 1, opt.ceil_mode};
  const Pair out(pooled_size(x.dim(2), rows), pooled_size(x.dim(3), columns));
  check_size(op, x, out, opt.kernel, 1);
  LATHE_CHECK(ValueError, opt.divisor_override != 0, op, ": divisor_override must not be 0");
  return resample(op, x, out, [&] {
    if (opt.divisor_override) {
      return PlaneMap{sum_map(x.dim(2), rows, 1),
                      sum_map(x.dim(3), columns, *opt.divisor_override)};
    }
    return PlaneMap{average_map(x.dim(2), rows, opt.count_include_pad),
                    average_map(x.dim(3), columns, opt.count_include_pad)};
  });
}

Tensor adaptive_avg_pool2d(const Tensor& x, Pair out) {
  if (x.ndim() == 3) return squeeze(adaptive_avg_pool2d(unsqueeze(x, 0), out), 0);
  const profile::OpRange range("adaptive_avg_pool2d", {x});
  profile::note_arguments(out);
  check_planes("adaptive_avg_pool2d", x);
  LATHE_CHECK(ValueError, out > 0, "adaptive_avg_pool2d: out must be positive, got ", out);
  if (out == Pair(1) && x.numel() > 0) {
    const Tensor y = mean(x, {2, 3}, {.keepdim = true});
    if (memory_format_of(x) == kContiguous) return y;
    // With the strides of NHWC, by which a convolution decides: see conv2d_format().
    return permute(view(y, {y.dim(0), 1, 1, y.dim(1)}), {0, 3, 1, 2});
  }
  return resample("adaptive_avg_pool2d", x, out, [&] {
    return PlaneMap{adaptive_average_map(x.dim(2), out.rows),
                    adaptive_average_map(x.dim(3), out.cols)};
  });
}

}  // namespace lathe
