// Probability distributions: PyTorch's values and gradients, samples by their distribution function
// and moments, and what is refused.
#include "lathe/nn/distributions/distributions.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "lathe/core/formats/safetensors.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/join.h"
#include "lathe/ops/sort.h"
#include "lathe/ops/unary.h"
#include "lathe/tests/ops/compare.h"

using namespace lathe;
using namespace lathe::distributions;
using doctest::Contains;
using test::difference;

namespace {

using Made = std::shared_ptr<const Distribution>;
using In = const Tensors&;
constexpr double kInf = std::numeric_limits<double>::infinity();

template <class D>
Made made(D d) {
  return std::make_shared<const D>(std::move(d));
}

struct GoldenCase {
  std::string name;
  Made (*make)(In p);
};
// clang-format off
const GoldenCase kGolden[] = {  // as in make_distributions_golden.py
    {"normal", [](In p) { return made(Normal(p[0], p[1])); }},
    {"log_normal", [](In p) { return made(LogNormal(p[0], p[1])); }},
    {"uniform", [](In p) { return made(Uniform(p[0], p[1])); }},
    {"exponential", [](In p) { return made(Exponential(p[0])); }},
    {"gamma", [](In p) { return made(Gamma(p[0], p[1])); }},
    {"beta", [](In p) { return made(Beta(p[0], p[1])); }},
    {"bernoulli", [](In p) { return made(Bernoulli({.probs = p[0]})); }},
    {"bernoulli_logits", [](In p) { return made(Bernoulli({.logits = p[0]})); }},
    {"categorical", [](In p) { return made(Categorical({.probs = p[0]})); }},
    {"categorical_logits", [](In p) { return made(Categorical({.logits = p[0]})); }},
    {"multinomial", [](In p) { return made(Multinomial(5, {.probs = p[0]})); }},
    {"dirichlet", [](In p) { return made(Dirichlet(p[0])); }},
    {"multivariate_normal", [](In p) { return made(MultivariateNormal(p[0], {.covariance_matrix = p[1]})); }},
    {"multivariate_normal_precision", [](In p) { return made(MultivariateNormal(p[0], {.precision_matrix = p[1]})); }},
    {"multivariate_normal_tril", [](In p) { return made(MultivariateNormal(p[0], {.scale_tril = p[1]})); }},
    {"independent", [](In p) { return made(Independent(Normal(p[0], p[1]), 1)); }},
    {"mixture", [](In p) { return made(MixtureSameFamily(Categorical({.logits = p[0]}), Normal(p[1], p[2]))); }},
    {"mixture_of_vectors", [](In p) { return made(MixtureSameFamily(Categorical({.logits = p[0]}), Independent(Normal(p[1], p[2]), 1))); }},
};
// clang-format on

/// The entries of a case in golden_distributions.safetensors.
StateDict golden(const std::string& name) {
  static const StateDict all = safetensors::read(LATHE_GOLDEN_DISTRIBUTIONS).tensors;
  StateDict out;
  for (const auto& [key, t] : all) {
    if (key.starts_with(name + ".")) out.add(key.substr(name.size() + 1), t.clone());
  }
  return out;
}
Tensors numbered(const StateDict& all, const std::string& prefix) {
  Tensors out;
  for (int k = 0; all.contains(prefix + std::to_string(k)); ++k) {
    out.push_back(all[prefix + std::to_string(k)]);
  }
  return out;
}

/// The largest difference between the samples' distribution function and F (Kolmogorov, Smirnov).
template <class F>
double ks_distance(const Tensor& samples, F cdf) {
  std::vector<double> x = samples.reshape({-1}).to_vector<double>();
  std::sort(x.begin(), x.end());
  const auto n = static_cast<double>(x.size());
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double p = cdf(x[i]), k = static_cast<double>(i);
    worst = std::max({worst, p - k / n, (k + 1) / n - p});
  }
  return worst;
}
constexpr int64_t kSamples = 20'000;
/// Passed by one sample of 1,000 alone; the seed is fixed.
const double kKsBound = 1.95 / std::sqrt(static_cast<double>(kSamples));

/// The distribution function of Gamma(a, 1), by its power series.
double gamma_cdf(double a, double x) {
  double term = 1 / a, sum = term;
  for (double k = 1; term > 1e-18 * sum; ++k) sum += term *= x / (a + k);
  return std::exp(a * std::log(x) - x - std::lgamma(a)) * sum;
}

/// The same of a density on [0, x], by Simpson's rule.
template <class Density>
double integral(double x, Density density) {
  constexpr int n = 400;
  double sum = density(0.0) + density(x);
  for (int i = 1; i < n; ++i) sum += (i % 2 == 1 ? 4 : 2) * density(x * i / n);
  return sum * x / (3 * n);
}

Tensor number(double x) { return tensor(x, kF64); }

}  // namespace

TEST_CASE("distributions: values, moments and gradients are PyTorch's") {
  for (const GoldenCase& c : kGolden) {
    CAPTURE(c.name);
    const StateDict want = golden(c.name);
    Tensors p = numbered(want, "p");
    for (Tensor& t : p) t.requires_grad_();
    const Made one = c.make(p), other = c.make(numbered(want, "q"));
    const Tensor value = want["value"];
    Tensor loss = one->log_prob(value).sum();
    CHECK(difference(one->log_prob(value), want["log_prob"], 1e-12) == "");
    if (want.contains("entropy")) {
      CHECK(difference(one->entropy(), want["entropy"], 1e-12) == "");
      loss = loss + one->entropy().sum();
    } else {
      CHECK_THROWS_WITH_AS(one->entropy(), Contains("has no entropy"), ValueError);
    }
    if (want.contains("kl")) {
      const Tensor kl = kl_divergence(*one, *other);
      CHECK(difference(kl, want["kl"], 1e-12) == "");
      loss = loss + kl.sum();
    }
    if (want.contains("cdf")) {
      CHECK(difference(one->cdf(value), want["cdf"], 1e-12) == "");
    } else {
      CHECK_THROWS_WITH_AS(one->cdf(value), Contains("has no cdf"), ValueError);
    }
    if (want.contains("mean")) {
      CHECK(difference(one->mean(), want["mean"], 1e-12) == "");
      CHECK(difference(one->variance(), want["variance"], 1e-12) == "");
    } else {
      CHECK_THROWS_WITH_AS(one->mean(), Contains("has no mean"), ValueError);
    }
    loss.backward();
    const Tensors gradients = numbered(want, "g");
    // digamma's derivative has nine digits in PyTorch; special_test.cpp holds it against mpmath.
    const bool by_digamma = c.name == "gamma" || c.name == "beta" || c.name == "dirichlet";
    const double tolerance = by_digamma ? 1e-8 : 1e-10;
    for (size_t k = 0; k < p.size(); ++k) {
      CHECK(difference(p[k].grad(), gradients[k], tolerance) == "");
    }
  }
}

TEST_CASE("distributions: samples have the moments, the shape and no history") {
  manual_seed(31);
  for (const GoldenCase& c : kGolden) {
    CAPTURE(c.name);
    Tensors p = numbered(golden(c.name), "p");
    for (Tensor& t : p) t.requires_grad_();
    const Made d = c.make(p);
    const Tensor x = d->sample({2, kSamples / 2});
    CHECK_FALSE(x.requires_grad());
    Shape shape{2, kSamples / 2};
    for (const int64_t size : d->batch_shape()) shape.push_back(size);
    for (const int64_t size : d->event_shape()) shape.push_back(size);
    CHECK(x.shape() == shape);
    CHECK(d->log_prob(x).shape().size() == 2 + d->batch_shape().size());
    if (c.name.starts_with("categorical") || c.name == "log_normal") continue;  // no or heavy tails
    const Tensor mean = x.mean({0, 1}), deviation = sqrt(d->variance());
    const double far = (abs(mean - d->mean()) / (deviation + 1e-6)).max().item<double>();
    CHECK(far < 5 / std::sqrt(static_cast<double>(kSamples)));
    const Tensor ratio = x.var({0, 1}) / (d->variance() + 1e-9);
    CHECK((abs(ratio - 1)).max().item<double>() < 0.15);
  }
}

TEST_CASE("distributions: samples have the distribution function") {
  manual_seed(32);
  const auto by_cdf = [](const Distribution& d) {
    CAPTURE(d.name());
    const Tensor x = d.sample({kSamples}), p = d.cdf(sort(x).values);
    const Tensor ranks = arange(kSamples, {.dtype = kF64}) / static_cast<double>(kSamples);
    const double above = (p - ranks).max().item<double>();
    const double below = (ranks - p).max().item<double>() + 1.0 / kSamples;
    CHECK(std::max(above, below) < kKsBound);
  };
  by_cdf(Normal(number(1), number(2)));
  by_cdf(LogNormal(number(0.5), number(0.3)));
  by_cdf(Uniform(number(-1), number(3)));
  by_cdf(Exponential(number(2)));
  by_cdf(MixtureSameFamily(Categorical({.probs = tensor({0.3, 0.7}, kF64)}),
                           Normal(tensor({-2.0, 1.0}, kF64), tensor({0.5, 1.0}, kF64))));
  for (const double a : {0.3, 1.0, 4.5, 60.0}) {
    CAPTURE(a);
    const Tensor x = Gamma(number(a), number(2)).sample({kSamples});
    CHECK(ks_distance(x, [a](double v) { return gamma_cdf(a, 2 * v); }) < kKsBound);
  }
  const Tensor x = Beta(number(2), number(3.5)).sample({kSamples});
  const double norm = std::exp(std::lgamma(5.5) - std::lgamma(2) - std::lgamma(3.5));
  CHECK(ks_distance(x, [&](double v) {
          return integral(v, [&](double t) { return norm * t * std::pow(1 - t, 2.5); });
        }) < kKsBound);
}

TEST_CASE("distributions: samples depend on the generator alone") {
  const auto draw = [](uint64_t seed) {
    Generator g(seed);
    const Tensor a = Gamma(number(0.7), number(1)).sample({500}, &g);
    const Tensor b = Categorical({.probs = tensor({0.2, 0.8}, kF64)}).sample({500}, &g);
    return cat({a, b.to(kF64), Normal(number(0), number(1)).sample({500}, &g)}, 0);
  };
  const int threads = num_threads();
  set_num_threads(1);
  const Tensor one = draw(5);
  set_num_threads(3);
  const Tensor three = draw(5);
  set_num_threads(threads);
  CHECK(difference(one, three, 0) == "");
  CHECK(difference(one, draw(6), 0) != "");
}

TEST_CASE("distributions: rsample moves with the parameters as the quantiles do") {
  manual_seed(33);
  for (const double a : {0.05, 0.8, 1.0, 3.0, 40.0, 2000.0}) {
    for (int i = 0; i < 20; ++i) {
      const Tensor alpha = number(a).requires_grad_();
      const Tensor x = Gamma(alpha, number(1)).rsample();
      const double v = x.item<double>(), h = 1e-5 * a;
      x.backward();
      if (v < 1e-30) continue;  // the power series' quotient has no digits left
      const double slope = (gamma_cdf(a + h, v) - gamma_cdf(a - h, v)) / (2 * h);
      const double density = std::exp((a - 1) * std::log(v) - v - std::lgamma(a));
      CAPTURE(concat("alpha ", a, ", x ", v));
      CHECK(alpha.grad().item<double>() == doctest::Approx(-slope / density).epsilon(1e-4));
    }
  }
  // Of the others, by the mean: the derivative of E[x] or E[x^2] by a parameter.
  const Tensor a = number(2).requires_grad_(), b = number(3).requires_grad_();
  Beta(a, b).rsample({kSamples}).mean().backward();
  CHECK(std::fabs(a.grad().item<double>() - 3.0 / 25) < 0.006);
  CHECK(std::fabs(b.grad().item<double>() + 2.0 / 25) < 0.006);
  const Tensor loc = zeros({2}, kF64).requires_grad_();
  const Tensor tril = tensor({{1.0, 0.0}, {0.5, 2.0}}, kF64).requires_grad_();
  square(MultivariateNormal(loc, {.scale_tril = tril}).rsample({kSamples}))
      .mean({0})
      .sum()
      .backward();
  CHECK(difference(tril.grad(), tensor({{2.0, 0.0}, {1.0, 4.0}}, kF64), 0.03) == "");
  CHECK_THROWS_WITH_AS(Bernoulli({.probs = number(0.5)}).rsample(), Contains("has no rsample"),
                       ValueError);
  const Tensor y = Gamma(a, number(1)).rsample();
  CHECK_THROWS_WITH_AS(grad({y}, {a}, {.create_graph = true}), Contains("no second derivative"),
                       ValueError);
}

TEST_CASE("distributions: samples of tiny parameters stay inside the support") {
  manual_seed(34);
  const auto all_finite = [](const Tensor& x) { return all(isfinite(x)).item<bool>(); };
  const auto count = [](const Tensor& x, double value) {
    const std::vector<double> v = x.reshape({-1}).to_vector<double>();
    return std::count(v.begin(), v.end(), value);
  };
  // Where both gammas underflow, their quotient must not be exactly 1/2.
  for (const DType dtype : {kF32, kF64}) {
    const double a = dtype == kF32 ? 0.01 : 0.001;
    const Beta beta(full({}, a, {.dtype = dtype}), a);
    const Tensor x = beta.sample({kSamples});
    CAPTURE(dtype);
    CHECK(x.dtype() == dtype);
    CHECK(count(x, 0.5) == 0);
    CHECK(all_finite(beta.log_prob(x)));
    CHECK(std::fabs(x.mean().item<double>() - 0.5) < 5 * 0.5 / std::sqrt(kSamples));
    CHECK(std::fabs(x.var().item<double>() - 0.25 / (2 * a + 1)) < 0.002);
  }
  const Dirichlet dirichlet(full({3}, 0.01));
  const Tensor p = dirichlet.sample({kSamples});
  CHECK(count(p, 1.0f / 3) == 0);
  CHECK(all_finite(dirichlet.log_prob(p)));
  CHECK(difference(p.mean({0}), full({3}, 1.0 / 3), 5 * 0.47 / std::sqrt(kSamples)) == "");
  CHECK(difference(p.var({0}), full({3}, 2.0 / 9 / 1.03), 0.005) == "");
  // The derivative of the mean b / (a + b), with the error of 20,000 samples.
  const Tensor a = full({}, 0.1).requires_grad_();
  Beta(a, 0.1).rsample({kSamples}).mean().backward();
  CHECK(std::fabs(a.grad().item<double>() - 2.5) < 0.2);
  // The quotient by the rate underflows.
  const Gamma gamma(1e-3, 1e8);
  const Tensor y = gamma.sample({kSamples});
  CHECK(count(y, 0) == 0);
  CHECK(all_finite(gamma.log_prob(y)));
  const LogNormal tiny(-200.0, 1.0);
  CHECK(all_finite(tiny.log_prob(tiny.sample({10}))));
  // low + (high - low) u rounds to high, 30 times in a million.
  const Uniform narrow(1000.0, 1001.0);
  CHECK(all_finite(narrow.log_prob(narrow.sample({1'000'000}))));
}

TEST_CASE("distributions: a sample of a huge concentration has a gradient") {
  manual_seed(35);
  const Tensor alpha = number(1e6).requires_grad_();
  Gamma(alpha, number(1)).rsample().backward();
  CHECK(alpha.grad().item<double>() == doctest::Approx(1).epsilon(0.01));
}

TEST_CASE("distributions: the event of a value fits, its batch broadcasts") {
  const Tensor one = ones({1});
  const auto refused = [](const Distribution& d, const Tensor& value, const char* text) {
    CHECK_THROWS_WITH_AS(d.log_prob(value), Contains(text), ShapeError);
  };
  refused(Dirichlet(ones({3})), one,
          "Dirichlet: value must end with the event shape [3], got shape [1]");
  refused(Dirichlet(ones({3})), tensor(1.0f), "event shape [3], got shape []");
  refused(Multinomial(1, {.probs = ones({3})}), one, "Multinomial: value must end with");
  refused(MultivariateNormal(zeros({3}), {.scale_tril = eye(3)}), one,
          "MultivariateNormal: value must end with");
  refused(Independent(Normal(zeros({3}), 1.0), 1), one, "Independent: value must end with");
  refused(Independent(Normal(zeros({1}), 1.0), 1), ones({3}), "event shape [1], got shape [3]");
  const MixtureSameFamily mixture(Categorical({.probs = ones({2})}),
                                  Independent(Normal(zeros({2, 3}), 1.0), 1));
  refused(mixture, one, "MixtureSameFamily: value must end with");
  refused(mixture, tensor(1.0f), "MixtureSameFamily: value must end with");
  CHECK_THROWS_WITH_AS(mixture.cdf(one), Contains("event shape [3], got shape [1]"), ShapeError);

  // A value [4,1,event] in a batch [2], with PyTorch's numbers.
  const auto broadcasts = [](const Distribution& d, const Tensor& value, const Tensor& want) {
    CAPTURE(d.name());
    CHECK(difference(d.log_prob(value.expand({4, 1, value.dim(-1)})), want.expand({4, 2}), 1e-14) ==
          "");
  };
  const Tensor weights = tensor({{1.0, 2.0, 3.0}, {3.0, 2.0, 1.0}}, kF64);
  broadcasts(Dirichlet(weights), tensor({0.2, 0.3, 0.5}, kF64),
             tensor({1.5040773967762737, -0.3285040669720364}, kF64));
  broadcasts(Multinomial(3, {.probs = weights}), tensor({1.0, 0.0, 2.0}, kF64),
             tensor({-2.0794415416798357, -3.1780538303479458}, kF64));
  const Tensor loc = tensor({{0.0, 0.0}, {1.0, 2.0}}, kF64), x = tensor({1.0, -1.0}, kF64);
  broadcasts(MultivariateNormal(loc, {.scale_tril = tensor({{2.0, 0.0}, {1.0, 1.0}}, kF64)}), x,
             tensor({-3.7810242469692907, -7.031024246969291}, kF64));
  broadcasts(Independent(Normal(loc, 2.0), 1), x,
             tensor({-3.474171427529236, -4.349171427529236}, kF64));
}

TEST_CASE("distributions: numbers take the dtype of the other parameter; f32 stays f32") {
  const Normal d(zeros({3}, kF64), 2.0);
  CHECK(d.scale.dtype() == kF64);
  CHECK(d.sample({2}).shape() == Shape{2, 3});
  CHECK(Normal(0.0, 1.0).sample().dtype() == kF32);
  CHECK(Gamma(ones({2}), 1.0).sample().dtype() == kF32);
  CHECK(Multinomial(3, {.probs = ones({2})}).log_prob(tensor({1.0f, 2.0f})).dtype() == kF32);
}

TEST_CASE("distributions: probabilities of 0") {
  const Categorical p({.probs = tensor({0.5, 0.5, 0.0}, kF64)});
  const Categorical q({.probs = tensor({1.0, 0.0, 0.0}, kF64)});
  CHECK(kl_divergence(p, q).item<double>() == kInf);
  CHECK(kl_divergence(q, p).item<double>() == doctest::Approx(std::log(2)));
  CHECK(std::isfinite(q.entropy().item<double>()));
  const Multinomial m(2, {.probs = tensor({1.0, 0.0}, kF64)});
  CHECK(m.log_prob(tensor({2.0, 0.0}, kF64)).item<double>() == doctest::Approx(0));
  CHECK(kl_divergence(Uniform(0.0, 2.0), Uniform(0.0, 1.0)).item<double>() == kInf);
  CHECK(Uniform(0.0, 1.0).log_prob(tensor(1.0f)).item<double>() == -kInf);
}

TEST_CASE("distributions: what is out of range is named") {
  CHECK_THROWS_WITH_AS(Normal(zeros({2}), tensor({1.0f, -2.0f})),
                       Contains("Normal: scale must be positive, got -2 at element 1"), ValueError);
  CHECK_THROWS_WITH_AS(Uniform(1.0, 1.0), Contains("high must be above low"), ValueError);
  CHECK_THROWS_WITH_AS(Beta(1.0, 1.0).log_prob(tensor(1.5f)),
                       Contains("Beta: value must be in [0, 1], got 1.5"), ValueError);
  CHECK_THROWS_WITH_AS(Categorical({}), Contains("set probs or logits, and not both"), ValueError);
  CHECK_THROWS_WITH_AS(Categorical({.logits = zeros({3})}).log_prob(tensor(3)),
                       Contains("value must be a class number, got 3"), ValueError);
  CHECK_THROWS_WITH_AS(Multinomial(2, {.logits = zeros({2})}).log_prob(tensor({1.0f, 2.0f})),
                       Contains("the sum of value must be total_count, got 3"), ValueError);
  CHECK_THROWS_WITH_AS(Dirichlet(ones({2})).log_prob(tensor({0.5f, 0.6f})),
                       Contains("the sum of value must be 1"), ValueError);
  CHECK_THROWS_WITH_AS(
      MultivariateNormal(zeros({2}), {.covariance_matrix = tensor({{1.0f, 2.0f}, {2.0f, 1.0f}})}),
      Contains("MultivariateNormal: covariance_matrix must be positive definite: cholesky: the "
               "matrix is not positive definite: its leading minor of order 2"),
      ValueError);
  CHECK_THROWS_WITH_AS(MultivariateNormal(zeros({2}), {.precision_matrix = zeros({2, 2})}),
                       Contains("MultivariateNormal: precision_matrix must be"), ValueError);
  CHECK_THROWS_WITH_AS(
      MultivariateNormal(zeros({2}), {.covariance_matrix = eye(2, {.dtype = kI64})}),
      Contains("MultivariateNormal: expected loc and matrix in f32"), DTypeError);
  CHECK_THROWS_AS(MultivariateNormal(zeros({2}), {.scale_tril = eye(2, {.dtype = kF64})}),
                  DTypeError);
  CHECK_THROWS_AS(MultivariateNormal(zeros({2}, {.dtype = kBF16}),
                                     {.precision_matrix = eye(2, {.dtype = kBF16})}),
                  DTypeError);
  CHECK_THROWS_WITH_AS(MultivariateNormal(zeros({2}), {}), Contains("set one of"), ValueError);
  CHECK_THROWS_AS(MultivariateNormal(zeros({2}), {.scale_tril = eye(3)}), ShapeError);
  // If the sizes are read before the check, only a sanitizer sees it at 1; 9 do not fit a Shape.
  for (const int dims : {-1, 1, 9}) {
    CHECK_THROWS_WITH_AS(Independent(Normal(0.0, 1.0), dims),
                         Contains(concat("of Normal, 0, got ", dims).c_str()), ValueError);
  }
  const std::shared_ptr<const Distribution> none;
  CHECK_THROWS_WITH_AS(Independent(none, 0), Contains("Independent: base is null"), ValueError);
  CHECK_THROWS_WITH_AS(MixtureSameFamily(Categorical({.probs = ones({2})}), none),
                       Contains("MixtureSameFamily: component is null"), ValueError);
  CHECK_THROWS_WITH_AS(Dirichlet(tensor(1.0f)), Contains("Dirichlet: expected vectors"),
                       ShapeError);
  const Uniform uniform(tensor({0.0, 1.0}, kF64), 2.0);
  CHECK_THROWS_WITH_AS(uniform.cdf(number(0.5)),
                       Contains("Uniform: value must be in [low, high], got 0.5 at element 1"),
                       ValueError);
  CHECK_THROWS_WITH_AS(
      MixtureSameFamily(Categorical({.probs = ones({2}, kF64)}), uniform).cdf(number(0.5)),
      Contains("Uniform: value must be in [low, high], got 0.5"), ValueError);
  CHECK(difference(uniform.cdf(number(2)), ones({2}, kF64), 0) == "");
  CHECK_THROWS_WITH_AS(
      MixtureSameFamily(Categorical({.logits = zeros({3})}), Normal(zeros({2}), 1.0)),
      Contains("the batch shape of the components must be"), ShapeError);
  CHECK_THROWS_WITH_AS(kl_divergence(Normal(0.0, 1.0), Exponential(1.0)),
                       Contains("no formula for Normal and Exponential"), ValueError);
  CHECK_THROWS_AS(Normal(zeros({2}), zeros({3}) + 1.0), ShapeError);
  CHECK_THROWS_AS(Normal(tensor(1), 1.0), DTypeError);
}
