// swiglu: an op of this program's own. swiglu.cpp has the op, its gradient and the loops for the
// CPU, swiglu.cu the kernels for CUDA.
#pragma once

#include <lathe/lathe.h>

#include <cmath>
#include <utility>

/// y = silu(gate) * value, where silu(g) = g / (1 + exp(-g)): the gated layer of many transformers.
///   gate, value, y  one shape, any
/// dtypes: f16, bf16, f32, f64; the arithmetic is done in f32 or wider.
/// grad: gate, value, twice differentiable.
/// throws: ShapeError, DTypeError, DeviceError.
/// ref: Shazeer 2020 (arXiv:2002.05202).
lathe::Tensor swiglu(const lathe::Tensor& gate, const lathe::Tensor& value);

// --- the arithmetic of one element: one text for the CPU and for CUDA ----------------------------

template <class T>
LATHE_HD T swiglu_of(T gate, T value) {
  return gate / (T(1) + std::exp(-gate)) * value;
}

template <class T>
struct SwigluSlopes {
  T gate, value;
};
template <class T>
LATHE_HD SwigluSlopes<T> swiglu_slopes(T gate, T value) {
  const T s = T(1) / (T(1) + std::exp(-gate));
  return {value * s * (T(1) + gate * (T(1) - s)), gate * s};
}

// --- the kernels: dense tensors of one shape, dtype and device -----------------------------------

namespace cpu {
lathe::Tensor swiglu(const lathe::Tensor& gate, const lathe::Tensor& value);
/// → the gradients of gate and of value
std::pair<lathe::Tensor, lathe::Tensor> swiglu_grad(const lathe::Tensor& dy,
                                                    const lathe::Tensor& gate,
                                                    const lathe::Tensor& value);
}  // namespace cpu

namespace cuda {
lathe::Tensor swiglu(const lathe::Tensor& gate, const lathe::Tensor& value);
std::pair<lathe::Tensor, lathe::Tensor> swiglu_grad(const lathe::Tensor& dy,
                                                    const lathe::Tensor& gate,
                                                    const lathe::Tensor& value);
}  // namespace cuda
