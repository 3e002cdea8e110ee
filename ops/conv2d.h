// 2-d convolution. Here: contracts. conv2d.cpp: checks and gradients. conv/cpu/conv2d_cpu.cpp:
// dtypes and layouts on the CPU, over the engine that conv/cpu/conv2d_choice_cpu.cpp chooses.
// conv/cudnn/conv2d_cudnn.cpp and conv/conv2d_cuda.cu: GPUs. conv/conv2d_geometry.h: the shape
// rules.
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
///   x  [N,C,H,W] or [C,H,W]     w  [K,C/groups,R,S], in any order     bias  [K]
///   →  [N,K,P,Q],    P = (H + 2*pad - dilation*(R-1) - 1) / stride + 1,  Q likewise;
///      NHWC if x is NHWC; without N if x has no N
/// dtypes: f16, bf16, f32, f64; sums are kept in f32 or wider. On a GPU f64 is computed by our own
/// kernels, never by cuDNN.
/// grad: x, w, bias (twice); w's gradient lies in w's order.   amp: half.
/// On a GPU in f16, without a bias and where a gradient is recorded, the kernel may also leave the
/// sums that a batch norm needs of y: if cudnn::set_benchmark() is on and the search finds that
/// faster than a pass over y of their own.
/// throws: ShapeError, ValueError, DTypeError, DeviceError.
/// ref: Chetlur et al. 2014 (arXiv:1410.0759). On the CPU, 3x3 kernels may run as Winograd
/// (Lavin and Gray 2015, arXiv:1509.09308); see cpu::set_conv_exact.
LATHE_API Tensor conv2d(const Tensor& x, const Tensor& w, const Conv2dOptions& opt = {});

/// The adjoint in x: the gradient of sum(conv2d(x, w) * dy) with respect to an x of shape
/// `x_shape`. This is also what a transposed convolution computes. opt.bias is not used.
///   dy  [N,K,P,Q]     w  [K,C/groups,R,S]     →  [N,C,H,W], NHWC if dy is NHWC
/// dtypes: as conv2d.   grad: dy, w (twice).   amp: half.
/// throws: as conv2d; ShapeError if dy is not what conv2d gives for x_shape.
LATHE_API Tensor conv2d_input_grad(const Tensor& dy, const Tensor& w, const Shape& x_shape,
                                   const Conv2dOptions& opt = {});

/// The adjoint in w: the gradient of sum(conv2d(x, w) * dy) with respect to a w of shape `w_shape`.
/// opt.bias is not used.
///   dy  [N,K,P,Q]     x  [N,C,H,W]     →  [K,C/groups,R,S], in memory as w_format says
/// dtypes: as conv2d.   grad: dy, x (twice).   amp: half.
/// throws: as conv2d_input_grad, for w_shape.
LATHE_API Tensor conv2d_weight_grad(const Tensor& dy, const Tensor& x, const Shape& w_shape,
                                    const Conv2dOptions& opt = {},
                                    MemoryFormat w_format = kContiguous);

struct Conv2dGeometry;

namespace cpu {
/// true: convolutions add up the products themselves. false, the default: 3x3 kernels with
/// stride 1 or 2 may run as Winograd, up to 3.5 times as fast, in f32, in f16, which is computed in
/// f32, and in bf16 on processors without AMX: NHWC images with 16 channels or more
/// on both sides by our own (conv/cpu/conv2d_winograd_cpu.h chooses), row-major ones with 64 or
/// more by oneDNN 2. Winograd's error is larger: at most 6e-6 of the largest element where direct
/// sums have 2e-6, measured against f64, 64 to 512 channels
/// (docs/results/winograd-errors.json). Inf or NaN in x or dy becomes NaN in all elements of y that
/// are computed with it: up to 4 rows and columns around, never in another image. From 1e37 on,
/// sums may overflow that would not as direct sums.
/// For the whole process; affects later calls.
/// Either way filters of which no gradient is recorded are packed once: code that writes them
/// through Tensor::data(), or another library that to_dlpack() showed them, must call
/// bump_version(). Filters in the memory of others (from_blob, from_dlpack) are packed each time.
LATHE_API void set_conv_exact(bool exact) noexcept;
LATHE_API bool conv_exact() noexcept;

Tensor conv2d_forward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                      const Tensor& bias);
/// conv2d_forward without a bias. Where our own kernels compute it in f32, `moments` becomes mean
/// and biased variance of each channel of y, f32 [2,K], summed up while y is in the cache;
/// elsewhere it stays as it is.
Tensor conv2d_forward_with_moments(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                                   Tensor& moments);
Tensor conv2d_backward_input(const Conv2dGeometry& g, const Tensor& dy, const Tensor& w);
Tensor conv2d_backward_weight(const Conv2dGeometry& g, const Tensor& dy, const Tensor& x,
                              MemoryFormat w_format = kContiguous);
}  // namespace cpu
namespace cuda {
Tensor conv2d_forward(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                      const Tensor& bias);
/// conv2d_forward without a bias. Where the search finds that fastest, y's kernel also leaves the
/// sums that batch norm needs of y (BatchNormCall::sums); else `sums` stays undefined.
Tensor conv2d_forward_with_sums(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                                Tensor& sums);
Tensor conv2d_backward_input(const Conv2dGeometry& g, const Tensor& dy, const Tensor& w);
Tensor conv2d_backward_weight(const Conv2dGeometry& g, const Tensor& dy, const Tensor& x,
                              MemoryFormat w_format = kContiguous);
}  // namespace cuda

}  // namespace lathe
