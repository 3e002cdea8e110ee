// 2-d convolution. conv2d.cpp: checks and gradients. conv/cpu/conv2d_cpu.cpp: dtypes and layouts on
// the CPU, over the engine that conv/cpu/conv2d_choice_cpu.cpp chooses. conv/cudnn/conv2d_cudnn.cpp
// and conv/conv2d_cuda.cu: GPUs. conv/conv2d_geometry.h: the shape rules.
#pragma once

#include "lathe/core/pair.h"
#include "lathe/core/tensor.h"

namespace lathe {

struct Conv2dOptions {
  Tensor bias = {};    // [K] or undefined
  Pair stride = 1;     // {rows, columns}; one number sets both
  Pair pad = 0;        // zeros added on each side
  Pair dilation = 1;   // distance between filter taps
  int64_t groups = 1;  // C and K are split into this many independent groups
};

/// 2-d cross-correlation:
///   y[n,k,p,q] = bias[k] + sum over c,r,s of
///                x[n, c, p*stride - pad + r*dilation, q*stride - pad + s*dilation] * w[k,c,r,s]
///   x  [N,C,H,W] or [C,H,W]     w  [K,C/groups,R,S], any strides     bias  [K]
///   →  [N,K,P,Q],    P = (H + 2*pad - dilation*(R-1) - 1) / stride + 1,  Q likewise;
///      NHWC if x is NHWC; without N if x has no N
/// dtypes: f16, bf16, f32, f64; sums are kept in f32 or wider. On a GPU f64 is computed by our own
/// kernels, never by cuDNN.
/// grad: x, w, bias, twice differentiable; w's gradient has w's order in memory.   amp: half.
/// On a GPU one kernel may compute y and the sums of y that a following batch norm needs. All of
/// this must hold:
///   - the dtype is f16, there is no bias, and a gradient is recorded
///   - cudnn::set_benchmark() is on, and the search finds such a kernel faster than a separate pass
///     over y
/// throws: ShapeError, DTypeError, DeviceError; ValueError unless stride, dilation and groups are
/// positive and pad is not negative.
/// ref: Chetlur et al. 2014 (arXiv:1410.0759). On the CPU, 3x3 kernels may run as Winograd
/// (Lavin and Gray 2015, arXiv:1509.09308); see cpu::set_conv_exact.
LATHE_API Tensor conv2d(const Tensor& x, const Tensor& w, const Conv2dOptions& opt = {});

/// The gradient of sum(conv2d(x, w) * dy) with respect to x, where x has the shape `x_shape`. This
/// is a transposed convolution. opt.bias is not used.
///   dy  [N,K,P,Q]     w  [K,C/groups,R,S]     →  [N,C,H,W], NHWC if dy is NHWC
/// dtypes: as conv2d.   grad: dy, w, twice differentiable.   amp: half.
/// throws: as conv2d; ShapeError if conv2d of x_shape and w does not give dy's shape.
LATHE_API Tensor conv2d_input_grad(const Tensor& dy, const Tensor& w, const Shape& x_shape,
                                   const Conv2dOptions& opt = {});

/// The gradient of sum(conv2d(x, w) * dy) with respect to w, where w has the shape `w_shape`.
/// opt.bias is not used.
///   dy  [N,K,P,Q]     x  [N,C,H,W]     →  [K,C/groups,R,S], in memory as w_format says
/// dtypes: as conv2d.   grad: dy, x, twice differentiable.   amp: half.
/// throws: as conv2d; ShapeError if conv2d of x and w_shape does not give dy's shape.
LATHE_API Tensor conv2d_weight_grad(const Tensor& dy, const Tensor& x, const Shape& w_shape,
                                    const Conv2dOptions& opt = {},
                                    MemoryFormat w_format = kContiguous);

struct Conv2dGeometry;

namespace cpu {
/// true: convolutions sum up the products directly. false, the default: 3x3 filters with stride 1
/// or 2 may run as Winograd, up to 3.5 times as fast. Affects later calls of the whole process.
/// Winograd may run in f32, in f16 (computed in f32), and in bf16 on processors without AMX:
///   - NHWC images with at least 16 input and 16 output channels run in our own Winograd
///     (conv/cpu/conv2d_choice_cpu.h chooses)
///   - row-major images with at least 64 input and 64 output channels run in oneDNN 2's Winograd
/// Winograd is less exact:
///   - Its error is at most 6e-6 of the largest element; direct sums have 2e-6. Measured against
///     f64 with 64 to 512 channels (docs/results/winograd-errors.json).
///   - An Inf or NaN in x or dy turns elements up to 4 rows and columns around it into NaN, never
///     those of another image.
///   - From 1e37 on, sums may overflow that would not overflow directly.
/// With either setting, filters for which no gradient is recorded are packed once, and later calls
/// use the packed copy. Code that writes such filters through Tensor::data() or to_dlpack() must
/// then call bump_version(). Filters in foreign memory (from_blob, from_dlpack) are packed at each
/// call.
LATHE_API void set_conv_exact(bool exact) noexcept;
LATHE_API bool conv_exact() noexcept;

Tensor conv2d_forward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                      const Tensor& bias);
/// conv2d_forward without a bias. If our own kernels compute it in f32, they also set `moments` to
/// the mean and biased variance of each channel of y, f32 [2,K]. Otherwise `moments` is unchanged.
Tensor conv2d_forward_with_moments(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                                   Tensor& moments);
Tensor conv2d_backward_input(const Conv2dGeometry& g, const Tensor& dy, const Tensor& w);
Tensor conv2d_backward_weight(const Conv2dGeometry& g, const Tensor& dy, const Tensor& x,
                              MemoryFormat w_format = kContiguous);
}  // namespace cpu
namespace cuda {
Tensor conv2d_forward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                      const Tensor& bias);
/// conv2d_forward without a bias. If the search finds that fastest, the kernel also sets `sums` to
/// the sums of y that batch norm needs (BatchNormCall::sums). Otherwise `sums` stays undefined.
Tensor conv2d_forward_with_sums(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                                Tensor& sums);
Tensor conv2d_backward_input(const Conv2dGeometry& g, const Tensor& dy, const Tensor& w);
Tensor conv2d_backward_weight(const Conv2dGeometry& g, const Tensor& dy, const Tensor& x,
                              MemoryFormat w_format = kContiguous);
}  // namespace cuda

}  // namespace lathe
