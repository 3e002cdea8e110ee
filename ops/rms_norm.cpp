// Root mean square normalisation, by other ops. Contract: rms_norm.h.
#include "lathe/ops/rms_norm.h"

#include <limits>

#include "lathe/core/hooks/range.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"

namespace lathe {

Tensor rms_norm(const Tensor& x_in, const Shape& normalized, const RmsNormOptions& opt) {
  const profile::OpRange range("rms_norm", {x_in});
  const Tensor x = amp::cast(amp::kFloat, x_in);
  check_floating("rms_norm", x);
  bool fits = !normalized.empty() && x.ndim() >= normalized.size();
  Dims dims;
  for (int d = 1; fits && d <= normalized.size(); ++d) {
    fits = x.dim(-d) == normalized[normalized.size() - d];
    dims.push_back(-d);
  }
  LATHE_CHECK(ShapeError, fits && (!opt.weight.defined() || opt.weight.shape() == normalized),
              "rms_norm: the last dimensions of x, and weight, must be ", normalized, " (x: ", x,
              ", weight: ", opt.weight, ")");
  const double epsilon = x.dtype() == kF64 ? std::numeric_limits<double>::epsilon()
                                           : std::numeric_limits<float>::epsilon();
  const Tensor wide = is_half(x.dtype()) ? cast(x, kF32) : x;
  const Tensor squares = mean(square(wide), dims, {.keepdim = true});
  const Tensor y = mul(wide, rsqrt(add(squares, opt.eps.value_or(epsilon))));
  return cast(opt.weight.defined() ? mul(y, cast(opt.weight, y.dtype())) : y, x.dtype());
}

}  // namespace lathe
