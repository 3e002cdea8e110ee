// The float forms of log, tanh, erf and the normal distribution: within their bounds of the exact
// values, right at the ends, with the same bits in vector code as alone. fast_exp:
// softmax_test.cpp.
#include "lathe/ops/exp_math.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <optional>
#include <vector>

#include "lathe/core/files/crc32.h"
#include "lathe/core/x86_levels.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/join.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

using namespace lathe;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

double ulp_of(double exact) { return std::ldexp(1.0, std::max(std::ilogb(exact), -126) - 23); }

/// The largest error in ulp over numbers whose distance grows with their size.
template <class F>
double worst_error(F f, const std::function<double(double)>& exact, double first, double last) {
  double worst = 0;
  for (double x = first; x <= last; x += std::max(std::fabs(x) * 1.7e-4, 1e-9)) {
    const auto at = static_cast<float>(x);
    const double want = exact(static_cast<double>(at));
    const double error = std::fabs(static_cast<double>(f(at)) - want) / ulp_of(want);
    if (std::isnan(error)) return INFINITY;  // max() would drop it
    worst = std::max(worst, error);
  }
  return worst;
}

float cdf(float x) { return math::normal_at(x).cdf; }
double exact_cdf(double x) { return 0.5 * std::erfc(-x / std::sqrt(2.0)); }

}  // namespace

TEST_CASE("fast_log, fast_log1p: within 1 ulp, right at the ends") {
  const auto log = [](float x) { return math::fast_log(x); };
  const auto log1p = [](float x) { return math::fast_log1p(x); };
  for (const auto& [first, last] :
       {std::pair{1e-44, 1e-30}, {1e-6, 1e-3}, {0.01, 0.9999}, {1.0001, 100.0}, {1e30, 3e38}}) {
    CHECK(worst_error(
              log, [](double x) { return std::log(x); }, first, last) < 1);
    CHECK(worst_error(
              log1p, [](double x) { return std::log1p(x); }, first, last) < 1);
  }
  const auto below = [](float x) { return math::fast_log1p(-x); };
  CHECK(worst_error(
            below, [](double x) { return std::log1p(-x); }, 1e-44, 0.9999999) < 1);
  CHECK(log(1.0f) == 0);
  for (const float zero : {0.0f, -0.0f}) CHECK(log(zero) == -kInf);
  CHECK(log(kInf) == kInf);
  for (const float x : {-1e-45f, -1.0f, -kInf, std::nanf("")}) CHECK(std::isnan(log(x)));
  CHECK(log1p(0.0f) == 0);
  CHECK(log1p(1e-30f) == 1e-30f);
  CHECK(std::signbit(log1p(-0.0f)));
  CHECK(log1p(kInf) == kInf);
  CHECK(log1p(3e38f) == doctest::Approx(std::log(3e38)));
  CHECK(log1p(-1.0f) == -kInf);
  for (const float x : {-1.0000001f, -3e38f, -kInf}) CHECK(std::isnan(log1p(x)));
  CHECK(std::isnan(log1p(std::nanf(""))));
}

TEST_CASE("log1p_of_share, fast_expm1: within 2 ulp, right at the ends") {
  const auto share = [](float x) { return math::log1p_of_share(x); };
  CHECK(worst_error(
            share, [](double x) { return std::log1p(x); }, 1e-44, 1) < 2);
  const auto expm1 = [](float x) { return math::fast_expm1(x); };
  const auto below = [](float x) { return math::fast_expm1(-x); };
  for (const auto& [first, last] : {std::pair{1e-44, 1e-3}, {1e-3, 2.0}, {2.0, 88.72}}) {
    CHECK(worst_error(
              expm1, [](double x) { return std::expm1(x); }, first, last) < 2);
    CHECK(worst_error(
              below, [](double x) { return std::expm1(-x); }, first, last) < 2);
  }
  CHECK(expm1(kInf) == kInf);
  CHECK(expm1(88.8f) == kInf);
  CHECK(expm1(-kInf) == -1);
  CHECK(std::signbit(expm1(-0.0f)));
  CHECK(std::isnan(expm1(std::nanf(""))));
}

TEST_CASE("fast_tanh, fast_erf: within 2 ulp, odd, right at the ends") {
  const auto tanh = [](float x) { return math::fast_tanh(x); };
  const auto erf = [](float x) { return math::fast_erf(x); };
  for (const auto& [first, last] : {std::pair{1e-44, 1e-3}, {1e-3, 0.6}, {0.6, 30.0}}) {
    CHECK(worst_error(
              tanh, [](double x) { return std::tanh(x); }, first, last) < 2);
    CHECK(worst_error(
              erf, [](double x) { return std::erf(x); }, first, last) < 2);
  }
  for (const auto& f : {std::function<float(float)>(tanh), std::function<float(float)>(erf)}) {
    for (const float x : {0.0f, 1e-45f, 1e-20f, 0.3f, 0.89f, 0.91f, 2.0f, 1e30f, kInf}) {
      CHECK(std::bit_cast<uint32_t>(f(-x)) == std::bit_cast<uint32_t>(-f(x)));
    }
    CHECK(f(kInf) == 1);
    CHECK(f(std::numeric_limits<float>::max()) == 1);
    CHECK(std::isnan(f(std::nanf(""))));
  }
}

TEST_CASE("normal_at: within its bounds, right at the ends") {
  CHECK(worst_error(cdf, exact_cdf, 1e-30, 20) < 2);
  CHECK(worst_error(cdf, exact_cdf, -1.2, -1e-30) < 4);
  CHECK(worst_error(cdf, exact_cdf, -4, -1.2) < 8);
  for (float x = -12.9f; x < -4; x += 0.0007f) {
    const double want = exact_cdf(static_cast<double>(x));
    CHECK(std::fabs(static_cast<double>(cdf(x)) - want) <= 1e-5 * want);
  }
  CHECK(cdf(-kInf) == 0);
  CHECK(cdf(-1e30f) == 0);
  CHECK(cdf(0) == 0.5f);
  CHECK(cdf(kInf) == 1);
  CHECK(std::isnan(cdf(std::nanf(""))));
}

// Without AVX-512 they are also the same on every processor.
TEST_CASE("exp, tanh, gelu and others: the same bits in vectors as alone") {
  std::vector<float> values = {0, -0.0f, kInf, -kInf, 1e-45f, -1e-40f, 3e38f, -3e38f};
  for (int i = -6000; i < 6000; ++i) values.push_back(static_cast<float>(i) * 0.0153f);
  const Tensor x = tensor(values), twice = stack({x, x}, 1);
  const auto check = [&](const std::function<Tensor(const Tensor&)>& f,
                         std::optional<uint32_t> bits) {
    const auto dense = f(x).to_vector<float>();
    const auto strided = f(twice.select(1, 0)).to_vector<float>();
    const Tensor four = x.slice(0, 7000, 7004).view({4, 1}).expand({4, 300});  // rows of one number
    CHECK(equal(f(four), f(four.contiguous())));
    std::vector<uint32_t> numbers;
    for (size_t i = 0; i < values.size(); ++i) {
      const float alone = f(tensor(values[i])).item<float>();
      numbers.push_back(std::isnan(alone) ? 0u : std::bit_cast<uint32_t>(alone));
      if (std::isnan(alone)) continue;
      CHECK(std::bit_cast<uint32_t>(dense[i]) == numbers.back());
      CHECK(std::bit_cast<uint32_t>(strided[i]) == numbers.back());
    }
    if (bits) CHECK(crc32(numbers.data(), numbers.size() * sizeof(uint32_t)) == *bits);
  };
  const auto plain = [](uint32_t bits) {
    return has_avx512() ? std::nullopt : std::optional(bits);
  };
  const Tensor dy = full({}, 1.5f, {.dtype = kF32});
  for (const auto& f : {&log, &sqrt, &silu, &sin, &cos}) check(f, std::nullopt);
  check([](const Tensor& v) { return exp(v); }, plain(2221947362u));
  check([](const Tensor& v) { return tanh(v); }, plain(2467542344u));
  check([](const Tensor& v) { return erf(v); }, 1202359902u);
  check([](const Tensor& v) { return sigmoid(v); }, plain(4014182956u));
  check([](const Tensor& v) { return softplus(v); }, 2283130516u);
  check([](const Tensor& v) { return expm1(v); }, 181627866u);
  check([](const Tensor& v) { return log1p(v); }, 1811756441u);
  check([](const Tensor& v) { return gelu(v); }, plain(2965334786u));
  check([](const Tensor& v) { return gelu(v, {.tanh_approximation = true}); }, plain(647641867u));
  check([&](const Tensor& v) { return gelu_grad(dy.expand(v.shape()).contiguous(), v); },
        2984848138u);
  check([&](const Tensor& v) { return gelu_tanh_grad(dy.expand(v.shape()).contiguous(), v); },
        3344006926u);
}
