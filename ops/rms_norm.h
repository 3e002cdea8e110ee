// Root mean square normalisation (rms_norm.cpp, made of other ops).
#pragma once

#include <optional>

#include "lathe/core/tensor.h"

namespace lathe {

struct RmsNormOptions {
  Tensor weight = {};              // of the normalised shape; undefined: 1
  std::optional<double> eps = {};  // inside the root; unset: 2^-52 for f64, else 2^-23
};

/// y = x / sqrt(mean(x²) + eps) * weight. The mean is taken over the last dimensions, whose sizes
/// are `normalized`.
///   x  […, normalized]   →  x's shape and dtype
/// dtypes: f16, bf16, f32, f64; computed in f32 or wider.
/// grad: x, weight, twice differentiable.   amp: float.
/// throws: ShapeError, DTypeError.
/// ref: Zhang and Sennrich 2019 (arXiv:1910.07467); torch.nn.functional.rms_norm.
LATHE_API Tensor rms_norm(const Tensor& x, const Shape& normalized,
                          const RmsNormOptions& options = {});

}  // namespace lathe
