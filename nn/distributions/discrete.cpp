// Discrete distributions. Contracts: discrete.h.
#include "lathe/nn/distributions/discrete.h"

#include <limits>

#include "lathe/nn/distributions/distribution_parts.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/index.h"
#include "lathe/ops/losses/losses.h"
#include "lathe/ops/multinomial.h"
#include "lathe/ops/random.h"
#include "lathe/ops/rearrange.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/softmax.h"
#include "lathe/ops/special.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe::distributions {

namespace {

/// The one that is set.
/// throws: ValueError unless exactly one is; DTypeError; ShapeError if it needs classes.
const Tensor& chosen(const char* name, const ProbsOrLogits& p, bool has_classes) {
  LATHE_CHECK(ValueError, p.probs.defined() != p.logits.defined(), name,
              ": set probs or logits, and not both");
  const Tensor& x = p.probs.defined() ? p.probs : p.logits;
  LATHE_CHECK(DTypeError, x.dtype() == kF32 || x.dtype() == kF64, name,
              ": expected probabilities in f32 or f64 (", x, ")");
  LATHE_CHECK(ShapeError, !has_classes || (x.ndim() > 0 && x.dim(-1) > 0), name,
              ": expected probabilities of classes, […,C] (", x, ")");
  return x;
}

Shape batch_of(const char* name, const ProbsOrLogits& p) {
  return without_last(chosen(name, p, true).shape(), 1);
}

}  // namespace

Bernoulli::Bernoulli(const ProbsOrLogits& p)
    : Distribution("Bernoulli", chosen("Bernoulli", p, false).shape(), {}),
      probs(p.probs),
      logits(p.logits) {
  if (logits.defined()) {
    check_each(name(), "logits", "numbers", eq(logits, logits), logits);
    probs = sigmoid(logits);
  } else {
    check_each(name(), "probs", "in [0, 1]", logical_and(ge(probs, 0), le(probs, 1)), probs);
    const Tensor inside = clamped_probs(probs);
    logits = sub(log(inside), log1p(neg(inside)));
  }
}
Tensor Bernoulli::draw(const Shape& sample_shape, Generator* generator) const {
  return bernoulli(contiguous(expand(probs, extended(sample_shape))), generator);
}
Tensor Bernoulli::log_prob(const Tensor& value) const {
  check_each(name(), "value", "0 or 1", logical_or(eq(value, 0), eq(value, 1)), value);
  const Shape shape = broadcast_shapes(name(), value.shape(), batch_shape());
  return neg(bce_with_logits(expand(logits, shape), expand(cast(value, logits.dtype()), shape),
                             {.reduction = Reduction::kNone}));
}
Tensor Bernoulli::entropy() const {
  return bce_with_logits(logits, probs, {.reduction = Reduction::kNone});
}
Tensor Bernoulli::variance() const { return mul(probs, sub(1, probs)); }

Categorical::Categorical(const ProbsOrLogits& p)
    : Distribution("Categorical", batch_of("Categorical", p), {}),
      probs(p.probs),
      logits(p.logits) {
  if (logits.defined()) {
    check_each(name(), "logits", "numbers", eq(logits, logits), logits);
    logits = log_softmax(logits, -1);
    probs = softmax(logits, -1);
  } else {
    check_each(name(), "probs", "at least 0", ge(probs, 0), probs);
    const Tensor total = sum(probs, {-1}, {.keepdim = true});
    check_each(name(), "the sum of probs", "positive", gt(total, 0), total);
    probs = div(probs, total);
    logits = log(clamped_probs(probs));
  }
}
Tensor Categorical::draw(const Shape& sample_shape, Generator* generator) const {
  const int64_t classes = probs.dim(-1), rows = numel_of(batch_shape());
  const int64_t count = numel_of(sample_shape);
  const Tensor drawn = multinomial(reshape(probs, {rows, classes}), count, {.replacement = true},
                                   generator);  // [rows,count]
  return reshape(transpose(drawn, 0, 1), extended(sample_shape));
}
Tensor Categorical::log_prob(const Tensor& value) const {
  const int64_t classes = probs.dim(-1);
  check_each(name(), "value", "a class number",
             logical_and(logical_and(ge(value, 0), lt(value, classes)), eq(floor(value), value)),
             value);
  const Shape shape = broadcast_shapes(name(), value.shape(), batch_shape());
  const Tensor index = unsqueeze(expand(cast(value, kI64), shape), -1);
  return squeeze(gather(expand(logits, joined(shape, {classes})), -1, index), -1);
}
Tensor Categorical::entropy() const {
  const double least = logits.dtype() == kF64 ? std::numeric_limits<double>::lowest()
                                              : std::numeric_limits<float>::lowest();
  const Tensor finite = clamp(logits, least, std::numeric_limits<double>::infinity());
  return neg(sum(mul(finite, probs), {-1}));
}
Tensor Categorical::mean() const { throw_without("mean"); }
Tensor Categorical::variance() const { throw_without("variance"); }

Multinomial::Multinomial(int64_t count, const ProbsOrLogits& p)
    : Multinomial(count, Categorical(p)) {}
Multinomial::Multinomial(int64_t count, const Categorical& classes)
    : Distribution("Multinomial", classes.batch_shape(), {classes.probs.dim(-1)}),
      total_count(count),
      categorical(classes) {
  LATHE_CHECK(ValueError, count >= 0, "Multinomial: total_count must be at least 0, got ", count);
}
Tensor Multinomial::draw(const Shape& sample_shape, Generator* generator) const {
  const Shape draws = joined({total_count}, sample_shape);
  const Tensor classes = movedim(categorical.sample(draws, generator), 0, -1);  // […,total_count]
  const Tensor counts = zeros(extended(sample_shape), categorical.probs.options());
  return scatter_add(counts, -1, classes, ones(classes.shape(), counts.options()));
}
Tensor Multinomial::log_prob(const Tensor& value) const {
  check_event(value);
  const Tensor total = sum(value, {-1});
  check_each(name(), "value", "counts", logical_and(ge(value, 0), eq(floor(value), value)), value);
  check_each(name(), "the sum of value", "total_count", eq(total, total_count), total);
  const Tensor counts = cast(value, categorical.logits.dtype());
  // A class that never comes counts for nothing, also with probability 0.
  const Tensor each = where(eq(counts, 0), 0, mul(categorical.logits, counts));
  const Tensor orders = sub(lgamma(add(sum(counts, {-1}), 1)), sum(lgamma(add(counts, 1)), {-1}));
  return add(orders, sum(each, {-1}));
}
Tensor Multinomial::entropy() const {
  const auto n = static_cast<double>(total_count);
  const Tensor& p = categorical.probs;
  const TensorOptions options = p.options();
  const Tensor log_count = lgamma(full({}, n + 1, options));
  const Tensor ordered = sub(mul(categorical.entropy(), n), log_count);
  if (total_count == 0) return ordered;
  // The mean of log k! over each class's binomial distribution, k = 1, …, n.
  const Tensor k = arange(1, total_count + 1, 1, options);
  const Tensor one = unsqueeze(clamped_probs(p), -1);
  const Tensor log_k = lgamma(add(k, 1));
  const Tensor ways = sub(sub(log_count, log_k), lgamma(sub(n + 1, k)));
  const Tensor log_binomial = add(ways, add(mul(k, log(one)), mul(sub(n, k), log1p(neg(one)))));
  return add(ordered, sum(mul(exp(log_binomial), log_k), {-2, -1}));
}
Tensor Multinomial::mean() const {
  return mul(categorical.probs, static_cast<double>(total_count));
}
Tensor Multinomial::variance() const { return mul(mean(), sub(1, categorical.probs)); }

}  // namespace lathe::distributions
