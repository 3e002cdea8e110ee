// Pooling over windows of planes. pool2d.cpp: checks and gradients; window_kernels/pool2d_cpu.cpp
// and pool2d_cuda.cu: max pooling; averages run through ops/resample.h.
//   x  [N,C,H,W] or [C,H,W], any strides; NHWC is kept   →  [N,C,P,Q] or [C,P,Q]
// dtypes: floats; averages are summed in f32 or wider.   amp: none, the result follows x.
// throws: ShapeError (x not 3-d or 4-d, a window larger than the padded input, a result too large),
// ValueError (options; a kernel, stride or dilation of 2^31 or more), DTypeError.
#pragma once

#include <concepts>
#include <optional>

#include "lathe/core/pair.h"
#include "lathe/core/tensor.h"
#include "lathe/ops/argmax.h"

namespace lathe {

struct MaxPool2dOptions {
  Pair kernel = 2;    // rows and columns of a window
  Pair stride = 0;    // 0: the kernel's size
  Pair pad = 0;       // -inf added on each side; at most half the kernel
  Pair dilation = 1;  // distance between elements of a window
  // true: the last window may reach beyond the padded input, by less than a stride
  bool ceil_mode = false;
};

/// The largest element of each window of x [N,C,H,W], as [N,C,P,Q]; NaN if the window holds a NaN.
///   P = (H + 2 pad - dilation (kernel - 1) - 1) / stride + 1,  Q likewise
/// grad: x, twice differentiable; if several elements are the largest, the first one gets the whole
/// gradient.
LATHE_API Tensor max_pool2d(const Tensor& x, const MaxPool2dOptions& options);

/// Like max_pool2d(), but also returns where in its plane each largest element is: the index (i64)
/// is row * W + column.
LATHE_API ValuesAndIndices max_pool2d_with_indices(const Tensor& x,
                                                   const MaxPool2dOptions& options);

struct AvgPool2dOptions {
  Pair kernel = 2;                // rows and columns of a window
  Pair stride = 0;                // 0: the kernel's size
  Pair pad = 0;                   // zeros added on each side; at most half the kernel
  bool ceil_mode = false;         // true: as for max_pool2d
  bool count_include_pad = true;  // false: divide by the number of real elements
  std::optional<int64_t> divisor_override = {};  // divides every window's sum instead; not 0
};

/// The mean of each window, or its sum divided by divisor_override. With ceil_mode, the part of a
/// window beyond the padding is never counted.
/// grad: x, twice differentiable.
LATHE_API Tensor avg_pool2d(const Tensor& x, const AvgPool2dOptions& options);

// max_pool2d() and avg_pool2d() with square windows and the arguments in PyTorch's order (kernel,
// stride, pad): max_pool2d(x, 2), avg_pool2d(x, 3, 2, 1). A stride of 0 means the kernel's size.
inline Tensor max_pool2d(const Tensor& x, std::integral auto kernel, int64_t stride = 0,
                         int64_t pad = 0) {
  return max_pool2d(x, MaxPool2dOptions{.kernel = kernel, .stride = stride, .pad = pad});
}
inline Tensor avg_pool2d(const Tensor& x, std::integral auto kernel, int64_t stride = 0,
                         int64_t pad = 0) {
  return avg_pool2d(x, AvgPool2dOptions{.kernel = kernel, .stride = stride, .pad = pad});
}

/// The means of P x Q = out.rows x out.cols windows that cover the plane. Row i of the windows
/// spans the rows [floor(i H/P), ceil((i+1) H/P)). The same holds for columns.
/// adaptive_avg_pool2d(x, 1) is global pooling.
/// grad: x, twice differentiable.
LATHE_API Tensor adaptive_avg_pool2d(const Tensor& x, Pair out);

namespace detail {
/// Checks x (of any dtype) and the options of max_pool2d or quantized_max_pool2d, which `op` names.
/// Replaces a stride of 0 by the kernel's size.
/// → {P,Q} of the result
/// throws: ShapeError, ValueError.
Pair max_pool2d_size(const char* op, const Tensor& x, MaxPool2dOptions& opt);
}  // namespace detail

namespace cpu {
/// Writes y and index (i32; -1 for a window of padding only) from x. All three are dense in one
/// order, row-major or NHWC. In cuda::, index may be undefined if the positions are not wanted.
void max_pool2d(const Tensor& y, const Tensor& index, const Tensor& x, const MaxPool2dOptions& opt);
/// dx = 0, then dx[n,c,index] += dy. All are dense in one order; index is that of max_pool2d.
void max_pool2d_scatter(const Tensor& dx, const Tensor& dy, const Tensor& index,
                        const MaxPool2dOptions& opt);
/// y = x[n,c,index]; 0 where index is -1. All are dense in one order.
void max_pool2d_gather(const Tensor& y, const Tensor& x, const Tensor& index);
}  // namespace cpu
namespace cuda {
void max_pool2d(const Tensor& y, const Tensor& index, const Tensor& x, const MaxPool2dOptions& opt);
void max_pool2d_scatter(const Tensor& dx, const Tensor& dy, const Tensor& index,
                        const MaxPool2dOptions& opt);
void max_pool2d_gather(const Tensor& y, const Tensor& x, const Tensor& index);
}  // namespace cuda

}  // namespace lathe
