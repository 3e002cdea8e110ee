// Distributions of a real number. Contracts: continuous.h.
#include "lathe/nn/distributions/continuous.h"

#include <cmath>
#include <numbers>

#include "lathe/nn/distributions/distribution_parts.h"
#include "lathe/nn/distributions/standard_gamma.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/random.h"
#include "lathe/ops/special.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe::distributions {

static const double kLogRoot2Pi = 0.5 * std::log(2 * std::numbers::pi);

Normal::Normal(const Param& loc_in, const Param& scale_in)
    : Normal(broadcast("Normal", {loc_in, scale_in})) {}
Normal::Normal(const Tensors& p)
    : Distribution("Normal", p[0].shape(), {}), loc(p[0]), scale(p[1]) {
  check_each(name(), "loc", "a number", eq(loc, loc), loc);
  check_each(name(), "scale", "positive", gt(scale, 0), scale);
}
Tensor Normal::draw(const Shape& sample_shape, Generator* generator) const {
  return add(loc, mul(scale, randn(extended(sample_shape), loc.options(), generator)));
}
Tensor Normal::log_prob(const Tensor& value) const {
  check_each(name(), "value", "a number", eq(value, value), value);
  const Tensor z = div(sub(value, loc), scale);
  return sub(sub(mul(square(z), -0.5), log(scale)), kLogRoot2Pi);
}
Tensor Normal::entropy() const { return add(log(scale), 0.5 + kLogRoot2Pi); }
Tensor Normal::cdf(const Tensor& value) const {
  check_each(name(), "value", "a number", eq(value, value), value);
  const Tensor z = div(sub(value, loc), mul(scale, std::numbers::sqrt2));
  return mul(add(erf(z), 1), 0.5);
}
Tensor Normal::variance() const { return square(scale); }

LogNormal::LogNormal(const Param& loc, const Param& scale) : LogNormal(Normal(loc, scale)) {}
LogNormal::LogNormal(const Normal& normal)
    : Distribution("LogNormal", normal.batch_shape(), {}), base(normal) {}
Tensor LogNormal::draw(const Shape& sample_shape, Generator* generator) const {
  return above_zero(exp(base.rsample(sample_shape, generator)), base.loc.dtype());
}
Tensor LogNormal::log_prob(const Tensor& value) const {
  check_each(name(), "value", "positive", gt(value, 0), value);
  const Tensor x = log(value);
  return sub(base.log_prob(x), x);
}
Tensor LogNormal::entropy() const { return add(base.entropy(), base.loc); }
Tensor LogNormal::cdf(const Tensor& value) const {
  check_each(name(), "value", "positive", gt(value, 0), value);
  return base.cdf(log(value));
}
Tensor LogNormal::mean() const { return exp(add(base.loc, mul(base.variance(), 0.5))); }
Tensor LogNormal::variance() const { return mul(expm1(base.variance()), square(mean())); }

Uniform::Uniform(const Param& low_in, const Param& high_in)
    : Uniform(broadcast("Uniform", {low_in, high_in})) {}
Uniform::Uniform(const Tensors& p)
    : Distribution("Uniform", p[0].shape(), {}), low(p[0]), high(p[1]) {
  check_each(name(), "high", "above low", lt(low, high), high);
}
Tensor Uniform::draw(const Shape& sample_shape, Generator* generator) const {
  const Tensor uniform = rand(extended(sample_shape), low.options(), generator);
  const Tensor x = add(low, mul(sub(high, low), uniform));
  // x can round up to `high`. `low` takes these, because only numbers above it round to it.
  return where(lt(x, high), x, low);
}
Tensor Uniform::log_prob(const Tensor& value) const {
  check_each(name(), "value", "in [low, high]", logical_and(ge(value, low), le(value, high)),
             value);
  return where(lt(value, high), neg(log(sub(high, low))), -INFINITY);
}
Tensor Uniform::entropy() const { return log(sub(high, low)); }
Tensor Uniform::cdf(const Tensor& value) const {
  check_each(name(), "value", "in [low, high]", logical_and(ge(value, low), le(value, high)),
             value);
  return div(sub(value, low), sub(high, low));
}
Tensor Uniform::mean() const { return mul(add(low, high), 0.5); }
Tensor Uniform::variance() const { return mul(square(sub(high, low)), 1.0 / 12); }

Exponential::Exponential(const Param& rate_in) : Exponential(broadcast("Exponential", {rate_in})) {}
Exponential::Exponential(const Tensors& p)
    : Distribution("Exponential", p[0].shape(), {}), rate(p[0]) {
  check_each(name(), "rate", "positive", gt(rate, 0), rate);
}
Tensor Exponential::draw(const Shape& sample_shape, Generator* generator) const {
  const Tensor uniform = rand(extended(sample_shape), rate.options(), generator);
  return div(neg(log1p(neg(uniform))), rate);
}
Tensor Exponential::log_prob(const Tensor& value) const {
  check_each(name(), "value", "at least 0", ge(value, 0), value);
  return sub(log(rate), mul(rate, value));
}
Tensor Exponential::entropy() const { return sub(1, log(rate)); }
Tensor Exponential::cdf(const Tensor& value) const {
  check_each(name(), "value", "at least 0", ge(value, 0), value);
  return neg(expm1(neg(mul(rate, value))));
}
Tensor Exponential::mean() const { return reciprocal(rate); }
Tensor Exponential::variance() const { return reciprocal(square(rate)); }

Gamma::Gamma(const Param& concentration_in, const Param& rate_in)
    : Gamma(broadcast("Gamma", {concentration_in, rate_in})) {}
Gamma::Gamma(const Tensors& p)
    : Distribution("Gamma", p[0].shape(), {}), concentration(p[0]), rate(p[1]) {
  check_each(name(), "concentration", "positive", gt(concentration, 0), concentration);
  check_each(name(), "rate", "positive", gt(rate, 0), rate);
}
Tensor Gamma::draw(const Shape& sample_shape, Generator* generator) const {
  const Tensor logs = log_standard_gamma(expand(concentration, extended(sample_shape)), generator);
  return above_zero(exp(sub(logs, log(cast(rate, kF64)))), rate.dtype());
}
Tensor Gamma::log_prob(const Tensor& value) const {
  check_each(name(), "value", "at least 0", ge(value, 0), value);
  const Tensor powers = add(xlogy(concentration, rate), xlogy(sub(concentration, 1), value));
  return sub(sub(powers, mul(rate, value)), lgamma(concentration));
}
Tensor Gamma::entropy() const {
  const Tensor shape =
      add(lgamma(concentration), mul(sub(1, concentration), digamma(concentration)));
  return add(sub(concentration, log(rate)), shape);
}
Tensor Gamma::mean() const { return div(concentration, rate); }
Tensor Gamma::variance() const { return div(concentration, square(rate)); }

Beta::Beta(const Param& concentration1_in, const Param& concentration0_in)
    : Beta(broadcast("Beta", {concentration1_in, concentration0_in})) {}
Beta::Beta(const Tensors& p)
    : Distribution("Beta", p[0].shape(), {}), concentration1(p[0]), concentration0(p[1]) {
  check_each(name(), "concentration1", "positive", gt(concentration1, 0), concentration1);
  check_each(name(), "concentration0", "positive", gt(concentration0, 0), concentration0);
}
Tensor Beta::draw(const Shape& sample_shape, Generator* generator) const {
  const Shape shape = extended(sample_shape);
  const Tensor log_a = log_standard_gamma(expand(concentration1, shape), generator);
  const Tensor log_b = log_standard_gamma(expand(concentration0, shape), generator);
  return between_zero_and_one(sigmoid(sub(log_a, log_b)), concentration1.dtype());  // a / (a + b)
}
Tensor Beta::log_prob(const Tensor& value) const {
  check_each(name(), "value", "in [0, 1]", logical_and(ge(value, 0), le(value, 1)), value);
  const Tensor powers =
      add(xlogy(sub(concentration1, 1), value), xlogy(sub(concentration0, 1), sub(1, value)));
  const Tensor norm = add(lgamma(concentration1), lgamma(concentration0));
  return add(sub(powers, norm), lgamma(add(concentration1, concentration0)));
}
Tensor Beta::entropy() const {
  const Tensor &a = concentration1, &b = concentration0, total = add(a, b);
  const Tensor norm = sub(add(lgamma(a), lgamma(b)), lgamma(total));
  const Tensor own = add(mul(sub(a, 1), digamma(a)), mul(sub(b, 1), digamma(b)));
  return add(sub(norm, own), mul(sub(total, 2), digamma(total)));
}
Tensor Beta::mean() const { return div(concentration1, add(concentration1, concentration0)); }
Tensor Beta::variance() const {
  const Tensor total = add(concentration1, concentration0);
  return div(mul(concentration1, concentration0), mul(square(total), add(total, 1)));
}

}  // namespace lathe::distributions
