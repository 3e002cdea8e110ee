// Special functions and their gradients. Contracts: special.h.
#include "lathe/ops/special.h"

#include <numbers>

#include "lathe/autograd/record.h"
#include "lathe/core/dispatch.h"
#include "lathe/ops/autocast.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/promote.h"
#include "lathe/ops/unary.h"

namespace lathe {

/// `gradient(x, y)` is the derivative. `arguments` are those of the op beside x.
template <class G, class... A>
static Tensor special_op(const char* name, SpecialOp op, const Tensor& x_in, int64_t n, G gradient,
                         const A&... arguments) {
  const Tensor x = floating(amp::cast(amp::kFloat, x_in));
  const profile::OpRange range(name, {x});
  if constexpr (sizeof...(A) > 0) profile::note_arguments(arguments...);
  Tensor y = empty_like(x);
  LATHE_DISPATCH(x.device(), special(op, y, x, n));
  autograd::record(name, y, {x},
                   [x = autograd::Saved(x), y = autograd::SavedOutput(y), gradient](
                       const Tensor& dy, const autograd::Needs&) {
                     return Tensors{mul(dy, gradient(x.get(), y.get()))};
                   });
  return y;
}

Tensor lgamma(const Tensor& x) {
  return special_op("lgamma", SpecialOp::kLgamma, x, 0,
                    [](const Tensor& v, const Tensor&) { return digamma(v); });
}

Tensor digamma(const Tensor& x) {
  return special_op("digamma", SpecialOp::kDigamma, x, 0,
                    [](const Tensor& v, const Tensor&) { return polygamma(1, v); });
}

Tensor polygamma(int64_t n, const Tensor& x) {
  LATHE_CHECK(ValueError, n >= 0, "polygamma: n must not be negative, got ", n, " (x: ", x, ")");
  if (n == 0) return digamma(x);
  return special_op(
      "polygamma", SpecialOp::kPolygamma, x, n,
      [n](const Tensor& v, const Tensor&) { return polygamma(n + 1, v); }, n);
}

Tensor erfinv(const Tensor& x) {
  return special_op("erfinv", SpecialOp::kErfinv, x, 0, [](const Tensor&, const Tensor& y) {
    return mul(exp(square(y)), 0.5 / std::numbers::inv_sqrtpi);
  });
}

}  // namespace lathe
