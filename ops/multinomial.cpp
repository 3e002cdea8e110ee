// multinomial: searches in running sums, or a race of exponential times. Contract: multinomial.h.
#include "lathe/ops/multinomial.h"

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/hooks/range.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/cumsum.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/searchsorted.h"
#include "lathe/ops/sort.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

namespace lathe {

/// Uniform in [0, 1), with 48 bits: rand has 24.
static Tensor fine_uniform(const Shape& shape, Device device, Generator* generator) {
  const TensorOptions options{.dtype = kF64, .device = device};
  const Tensor high = rand(shape, options, generator), low = rand(shape, options, generator);
  return add(high, mul(low, 0x1p-24));
}

static void check_weights(const Tensor& weights, const Tensor& p, int64_t count, bool replacement) {
  const Tensor bad = logical_or(lt(p, 0), logical_not(isfinite(p)));
  LATHE_CHECK(ValueError, !any(bad).item<bool>(), "multinomial: element ",
              argmax(bad).item<int64_t>(), " is negative or not finite (weights: ", weights, ")");
  const auto drawable = min(sum(gt(p, 0), {1})).item<int64_t>();
  LATHE_CHECK(ValueError, drawable > 0,
              "multinomial: a row has no positive weight (weights: ", weights, ")");
  LATHE_CHECK(ValueError, replacement || drawable >= count, "multinomial: ", count,
              " draws without replacement from a row with ", drawable,
              " positive weights (weights: ", weights, ")");
}

Tensor multinomial(const Tensor& weights, int64_t count, MultinomialOptions opt,
                   Generator* generator) {
  const profile::OpRange range("multinomial", {weights});
  LATHE_CHECK(DTypeError, is_floating(weights.dtype()),
              "multinomial: expected floating weights (weights: ", weights, ")");
  LATHE_CHECK(ShapeError, weights.ndim() == 1 || weights.ndim() == 2,
              "multinomial: weights must be [C] or [N,C] (weights: ", weights, ")");
  LATHE_CHECK(ValueError, count >= 0, "multinomial: count must not be negative, got ", count);
  const NoGrad off;
  const int64_t classes = weights.dim(-1), rows = weights.ndim() == 1 ? 1 : weights.dim(0);
  const Device device = weights.device();
  Shape shape{rows, count};
  if (weights.ndim() == 1) shape.erase(0);
  if (numel_of(shape) == 0) return empty(shape, {.dtype = kI64, .device = device});
  const Tensor p = reshape(cast(weights.detach(), kF64), {rows, classes});
  LATHE_CHECK(ValueError, classes > 0, "multinomial: there are no classes (weights: ", weights,
              ")");
  check_weights(weights, p, count, opt.replacement);
  if (opt.replacement) {
    // u total stays below total, so the place found is that of a positive weight.
    const Tensor sums = cumsum(p, 1), total = narrow(sums, 1, classes - 1, 1);
    const Tensor at = mul(fine_uniform({rows, count}, device, generator), total);
    return reshape(searchsorted(sums, at, {.right = true}), shape);
  }
  // Each class arrives after an exponential time of rate p; the first ones are drawn. u + 2^-49 is
  // never 0, so a class of weight 0 has speed 0 and comes last.
  const Tensor u = add(fine_uniform({rows, classes}, device, generator), 0x1p-49);
  return reshape(topk(div(p, neg(log(u))), count, 1).indices, shape);
}

}  // namespace lathe
