// Dropout: checks and gradient. Contract: dropout.h; kernels: random_kernels/dropout_cpu.cpp,
// dropout_cuda.cu.
#include "lathe/ops/dropout.h"

#include "lathe/autograd/record.h"
#include "lathe/core/dispatch.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/memory_format.h"

namespace lathe {

using autograd::Needs;

/// The map is linear and symmetric: its gradient is the same map with the same random numbers.
static Tensor drop(const Tensor& x, double p, const RandomStart& start) {
  const Tensor y = empty_in(memory_format_of(x), x.shape(), x.dtype(), x.device());
  const double scale = p < 1.0 ? 1.0 / (1.0 - p) : 0.0;
  LATHE_DISPATCH(x.device(), dropout(y, x, p, scale, start));
  autograd::record("dropout", y, {x}, [p, start](const Tensor& dy, const Needs&) {
    return Tensors{drop(dy, p, start)};
  });
  return y;
}

Tensor dropout(const Tensor& x, const DropoutOptions& opt) {
  const profile::OpRange range("dropout", {x});
  profile::note_arguments(opt);
  LATHE_CHECK(ValueError, opt.p >= 0.0 && opt.p <= 1.0, "dropout: p must be in [0, 1], got ",
              opt.p);
  check_floating("dropout", x);
  if (!opt.train || opt.p == 0.0) return x;
  return drop(x, opt.p, reserve_words(opt.generator, x.device(), x.numel()));
}

}  // namespace lathe
