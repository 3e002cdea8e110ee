// Group normalisation: over groups of channels of each sample (group_norm.cpp, over row_norm.h).
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

struct GroupNormOptions {
  Tensor weight = {};  // [C]; undefined: 1
  Tensor bias = {};    // [C]; undefined: 0
  double eps = 1e-5;   // inside the square root
};

/// y = (x - mean) / sqrt(var + eps) * weight[c] + bias[c]. Each group of C/groups channels of each
/// sample has its mean and (biased) variance, taken over all its positions.
///   x  [N,C,…], C divisible by `groups`   →  x's shape and dtype
/// dtypes: f16, bf16, f32, f64; computed in f32 or wider.
/// grad: x, weight, bias, twice differentiable.   amp: float.
/// throws: ShapeError, DTypeError, ValueError (groups < 1).
/// ref: Wu and He 2018 (arXiv:1803.08494).
LATHE_API Tensor group_norm(const Tensor& x, int64_t groups, const GroupNormOptions& options = {});

}  // namespace lathe
