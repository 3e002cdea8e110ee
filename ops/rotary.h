// Rotary positions (rotary.cpp, made of other ops).
#pragma once

#include <cstdint>

#include "lathe/core/tensor.h"

namespace lathe {

struct RotaryOptions {
  int64_t offset = 0;   // position of x's first token: with a key-value cache, the cache's length
  double base = 10000;  // the slowest pair turns once in about 2π base tokens
  bool interleaved =
      false;  // pairs are neighbours {2i, 2i+1}, not {i, i + D/2} as in Llama's files
};

/// Turns the pair i of a token's numbers by the angle p base^(-2i/D), where p is the token's
/// position. The product of a query and a key then depends on the distance between them:
///   (a, b) → (a cos - b sin, b cos + a sin)
///   x  […,T,D], D even   →  x's shape and dtype
/// dtypes: floats; the angles are computed in f64.   grad: x, twice differentiable.
/// throws: ShapeError, DTypeError; ValueError unless base is positive.
/// ref: Su et al. 2021 (arXiv:2104.09864).
LATHE_API Tensor rotary_embedding(const Tensor& x, const RotaryOptions& options = {});

}  // namespace lathe
