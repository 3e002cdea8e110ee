// Local response normalisation: over neighbouring channels (local_response_norm.cpp).
#pragma once

#include "lathe/core/tensor.h"

namespace lathe {

struct LocalResponseNormOptions {
  int64_t size = 5;  // channels of a window
  double alpha = 1e-4;
  double beta = 0.75;
  double k = 1;
};

/// y[n,c,…] = x[n,c,…] / (k + alpha/size * sum of x[n,j,…]^2 for j around c)^beta, where j runs
/// from c - size/2 to c + (size-1)/2, as far as there are channels.
///   x  [N,C,…]   →  x's shape and dtype
/// dtypes: floats; half types are computed in f32.   grad: x, twice differentiable.   amp: float.
/// throws: ShapeError (fewer than 3 dimensions), ValueError (size < 1), DTypeError.
/// ref: Krizhevsky, Sutskever and Hinton 2012 (NeurIPS 25); alpha is divided by size, as in Caffe.
LATHE_API Tensor local_response_norm(const Tensor& x, const LocalResponseNormOptions& options = {});

}  // namespace lathe
