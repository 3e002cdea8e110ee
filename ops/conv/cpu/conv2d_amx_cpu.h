// The gradient of a convolution's filters from images in bf16 and NHWC, in tile registers (Intel's
// Advanced Matrix Extensions).
//
//   dw[k,c,r,s] = sum over n, p, q of
//                 x[n, p + r*dilation - pad, q + s*dilation - pad, c] * dy[n,p,q,k]
//
// The sum goes over pixels, and a product of tiles wants pixels as neighbours. So images are copied
// first, a few at a time, and stay in the second-level cache until they are summed up. They stand
// one after another in a line of pixels, with zeros between rows and between images:
//   - x as a line for each channel
//   - dy as pairs of pixels for each channel
// A tap is then one distance between the two lines: r * dilation * pitch + s * dilation.
//
// Results have the same bits for any number of threads: the parts of the sum depend on the sizes
// alone and are added up in order. The instructions take denormal numbers as 0. Products with zeros
// between rows count: an infinite or NaN pixel may make more elements of dw NaN than the formula
// says.
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/ops/conv/conv2d_geometry.h"

namespace lathe::cpu {

struct AmxKernels;

/// True for what amx_backward_weight() computes: stride 1, one group, rows of up to 65536 pixels,
/// paddings and filters with their dilation no larger.
bool amx_takes(const Conv2dGeometry& g);

struct AmxWork {
  double share;   // of the computed products that the gradient needs
  int64_t tasks;  // for different threads, at most
};
/// The other products are with zeros between rows, and with those that fill dy's channels up to a
/// multiple of 32. g is not trivial and amx_takes() it.
AmxWork amx_work(const Conv2dGeometry& g);

/// dw: bf16, dense in any order. dy and x: bf16, NHWC. Sums are in f32 and rounded once. No size is
/// trivial. On a processor without tile registers, plain loops do the same.
void amx_backward_weight(const Conv2dGeometry& g, const Tensor& dw, const Tensor& dy,
                         const Tensor& x);
/// The same by these kernels.
void amx_backward_weight(const AmxKernels& kernels, const Conv2dGeometry& g, const Tensor& dw,
                         const Tensor& dy, const Tensor& x);

}  // namespace lathe::cpu
