// kl_divergence, a formula for each class. Contract: kl.h.
#include "lathe/nn/distributions/kl.h"

#include <cmath>

#include "lathe/nn/distributions/combined.h"
#include "lathe/nn/distributions/continuous.h"
#include "lathe/nn/distributions/discrete.h"
#include "lathe/nn/distributions/distribution_parts.h"
#include "lathe/nn/distributions/multivariate.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/diagonal.h"
#include "lathe/ops/linalg/linalg.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/special.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe::distributions {

namespace {

/// p (a - b): 0 where p is 0, else +inf where q is 0.
Tensor weighted(const Tensor& p, const Tensor& q, const Tensor& difference) {
  const Tensor t = where(logical_and(eq(q, 0), ne(p, 0)), INFINITY, mul(p, difference));
  return where(eq(p, 0), 0, t);
}

Tensor kl(const Normal& p, const Normal& q) {
  const Tensor ratio = square(div(p.scale, q.scale));
  const Tensor shift = square(div(sub(p.loc, q.loc), q.scale));
  return mul(sub(sub(add(ratio, shift), log(ratio)), 1), 0.5);
}
Tensor kl(const LogNormal& p, const LogNormal& q) { return kl(p.base, q.base); }
Tensor kl(const Uniform& p, const Uniform& q) {
  const Tensor value = log(div(sub(q.high, q.low), sub(p.high, p.low)));
  return where(logical_or(gt(q.low, p.low), lt(q.high, p.high)), INFINITY, value);
}
Tensor kl(const Exponential& p, const Exponential& q) {
  const Tensor ratio = div(q.rate, p.rate);
  return sub(sub(ratio, log(ratio)), 1);
}
Tensor kl(const Gamma& p, const Gamma& q) {
  const Tensor norm = sub(lgamma(q.concentration), lgamma(p.concentration));
  const Tensor shape = mul(sub(p.concentration, q.concentration), digamma(p.concentration));
  const Tensor rates = mul(q.concentration, log(div(p.rate, q.rate)));
  const Tensor means = mul(sub(q.rate, p.rate), div(p.concentration, p.rate));
  return add(add(norm, shape), add(rates, means));
}
Tensor kl(const Beta& p, const Beta& q) {
  const Tensor of_p = add(p.concentration1, p.concentration0);
  const Tensor of_q = add(q.concentration1, q.concentration0);
  const auto norm = [](const Beta& b, const Tensor& total) {
    return sub(add(lgamma(b.concentration1), lgamma(b.concentration0)), lgamma(total));
  };
  const auto moved = [](const Tensor& a, const Tensor& b) { return mul(sub(a, b), digamma(a)); };
  const Tensor own =
      add(moved(p.concentration1, q.concentration1), moved(p.concentration0, q.concentration0));
  return add(sub(norm(q, of_q), norm(p, of_p)), sub(own, moved(of_p, of_q)));
}
Tensor kl(const Bernoulli& p, const Bernoulli& q) {
  // log s(x) = -softplus(-x)
  const Tensor ones = sub(softplus(neg(q.logits)), softplus(neg(p.logits)));
  const Tensor zeros = sub(softplus(q.logits), softplus(p.logits));
  return add(weighted(p.probs, q.probs, ones), weighted(sub(1, p.probs), sub(1, q.probs), zeros));
}
Tensor kl(const Categorical& p, const Categorical& q) {
  return sum(weighted(p.probs, q.probs, sub(p.logits, q.logits)), {-1});
}
Tensor kl(const Dirichlet& p, const Dirichlet& q) {
  const Tensor of_p = sum(p.concentration, {-1}), of_q = sum(q.concentration, {-1});
  const Tensor norm = sub(lgamma(of_p), lgamma(of_q));
  const Tensor each = sum(sub(lgamma(q.concentration), lgamma(p.concentration)), {-1});
  const Tensor logs = sub(digamma(p.concentration), unsqueeze(digamma(of_p), -1));
  return add(add(norm, each), sum(mul(sub(p.concentration, q.concentration), logs), {-1}));
}
Tensor kl(const MultivariateNormal& p, const MultivariateNormal& q) {
  LATHE_CHECK(ShapeError, p.event_shape() == q.event_shape(),
              "kl_divergence: the vectors must be of one size, got ", p.event_shape(), " and ",
              q.event_shape());
  const auto log_sum = [](const Tensor& factor) {
    return sum(log(diagonal(factor, {.dim1 = -2, .dim2 = -1})), {-1});
  };
  const Tensor spread = linalg::solve_triangular(q.scale_tril, p.scale_tril);
  const Tensor shift = linalg::solve_triangular(q.scale_tril, unsqueeze(sub(p.loc, q.loc), -1));
  const Tensor squares = add(sum(square(spread), {-2, -1}), sum(square(shift), {-2, -1}));
  const auto d = static_cast<double>(p.loc.dim(-1));
  return add(sub(log_sum(q.scale_tril), log_sum(p.scale_tril)), mul(sub(squares, d), 0.5));
}
Tensor kl(const Independent& p, const Independent& q) {
  LATHE_CHECK(ValueError, p.dims == q.dims,
              "kl_divergence: Independent over different numbers of dimensions, ", p.dims, " and ",
              q.dims);
  return sum_rightmost(kl_divergence(*p.base, *q.base), p.dims);
}

/// True if both are a D; then out is their divergence.
template <class D>
bool both(const Distribution& p, const Distribution& q, Tensor& out) {
  const auto *const a = dynamic_cast<const D*>(&p), *const b = dynamic_cast<const D*>(&q);
  if (a == nullptr || b == nullptr) return false;
  out = kl(*a, *b);
  return true;
}

template <class... D>
Tensor first_of(const Distribution& p, const Distribution& q) {
  Tensor out;
  LATHE_CHECK(ValueError, (both<D>(p, q, out) || ...), "kl_divergence: no formula for ", p.name(),
              " and ", q.name());
  return out;
}

}  // namespace

Tensor kl_divergence(const Distribution& p, const Distribution& q) {
  return first_of<Normal, LogNormal, Uniform, Exponential, Gamma, Beta, Bernoulli, Categorical,
                  Dirichlet, MultivariateNormal, Independent>(p, q);
}

}  // namespace lathe::distributions
