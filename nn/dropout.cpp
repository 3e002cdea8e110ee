// Dropout2d and StochasticDepth: dropout of a [N,C,1,…] or [N,1,…] tensor of ones, by which x is
// multiplied.
#include "lathe/nn/dropout.h"

#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"

namespace lathe::nn {

namespace {

/// x times dropout of ones: a random number for each element of x's first `ndim` dimensions.
Tensor drop_leading(const Tensor& x, int ndim, double p, Generator* generator) {
  Shape shape = x.shape();
  for (int d = ndim; d < x.ndim(); ++d) shape[d] = 1;
  const Tensor kept = ones(shape, {.dtype = x.dtype(), .device = x.device()});
  return mul(x, dropout(kept, {.p = p, .generator = generator}));
}

}  // namespace

Dropout2d::Dropout2d(double p, Generator* generator) : p_(p), generator_(generator) {
  LATHE_CHECK(ValueError, p >= 0 && p <= 1, "Dropout2d: p must be in [0,1], got ", p);
}

Tensor Dropout2d::forward(const Tensor& x) {
  LATHE_CHECK(ShapeError, x.ndim() >= 2, "Dropout2d: expected [N,C,…] (x: ", x, ")");
  return is_training() && p_ > 0 ? drop_leading(x, 2, p_, generator_) : x;
}

StochasticDepth::StochasticDepth(double p, Generator* generator) : p_(p), generator_(generator) {
  LATHE_CHECK(ValueError, p >= 0 && p <= 1, "StochasticDepth: p must be in [0,1], got ", p);
}

Tensor StochasticDepth::forward(const Tensor& x) {
  LATHE_CHECK(ShapeError, x.ndim() >= 1, "StochasticDepth: expected [N,…] (x: ", x, ")");
  return is_training() && p_ > 0 ? drop_leading(x, 1, p_, generator_) : x;
}

}  // namespace lathe::nn
