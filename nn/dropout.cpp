// Dropout2d: dropout of a [N,C,1,…] tensor of ones, by which x is multiplied.
#include "lathe/nn/dropout.h"

#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"

namespace lathe::nn {

Dropout2d::Dropout2d(double p, Generator* generator) : p_(p), generator_(generator) {
  LATHE_CHECK(ValueError, p >= 0 && p <= 1, "Dropout2d: p must be in [0,1], got ", p);
}

Tensor Dropout2d::forward(const Tensor& x) {
  LATHE_CHECK(ShapeError, x.ndim() >= 2, "Dropout2d: expected [N,C,…] (x: ", x, ")");
  if (!is_training()) return x;
  Shape channels = x.shape();
  for (int d = 2; d < x.ndim(); ++d) channels[d] = 1;
  const Tensor kept = ones(channels, {.dtype = x.dtype(), .device = x.device()});
  return mul(x, dropout(kept, {.p = p_, .generator = generator_}));
}

}  // namespace lathe::nn
