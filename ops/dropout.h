// Dropout: zeros at random positions in training. dropout.cpp: checks and gradient;
// random_kernels/dropout_cpu.cpp, dropout_cuda.cu: kernels.
#pragma once

#include "lathe/core/random/random_start.h"
#include "lathe/core/tensor.h"

namespace lathe {

struct DropoutOptions {
  double p = 0.5;                  // probability of a zero
  bool train = true;               // false: the result is x
  Generator* generator = nullptr;  // null: the default generator of x's device
};

/// y[i] = 0 with probability p, else x[i] / (1 - p). p = 1 gives all zeros; p = 0 returns x itself.
///   x  any shape   →  the same shape, NHWC if x is NHWC
/// A call draws one uniform number for each element, in row-major order. An element becomes 0 if
/// its number is below p. Layout, device and number of threads do not change the result. Nothing is
/// saved for the backward pass, which draws the same numbers again.
/// dtypes: f16, bf16, f32, f64.   grad: x, twice differentiable.
/// throws: ValueError (p outside [0, 1]), DTypeError.
/// ref: Srivastava et al. 2014, JMLR 15.
LATHE_API Tensor dropout(const Tensor& x, const DropoutOptions& options = {});
inline Tensor dropout(const Tensor& x, double p, bool train) {
  return dropout(x, {.p = p, .train = train});
}

namespace cpu {
/// x and y may have any strides. scale = 1 / (1 - p), or 0 for p = 1.
void dropout(const Tensor& y, const Tensor& x, double p, double scale, Generator::State start);
}  // namespace cpu
namespace cuda {
void dropout(const Tensor& y, const Tensor& x, double p, double scale, const RandomStart& start);
}  // namespace cuda

}  // namespace lathe
