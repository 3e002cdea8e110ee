// Layer normalisation: over the last dimensions of each sample (layer_norm.cpp, over row_norm.h).
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

struct LayerNormOptions {
  Tensor weight = {};  // of the normalised shape; undefined: 1
  Tensor bias = {};    // of the normalised shape; undefined: 0
  double eps = 1e-5;   // inside the square root
};

/// y = (x - mean) / sqrt(var + eps) * weight + bias. mean and (biased) variance are taken over the
/// last dimensions, whose sizes are `normalized`.
///   x  […, normalized]   →  x's shape and dtype
/// dtypes: f16, bf16, f32, f64; computed in f32 or wider.
/// grad: x, weight, bias, twice differentiable.   amp: float.
/// throws: ShapeError, DTypeError.
/// ref: Ba, Kiros, Hinton 2016 (arXiv:1607.06450).
LATHE_API Tensor layer_norm(const Tensor& x, const Shape& normalized,
                            const LayerNormOptions& options = {});

}  // namespace lathe
