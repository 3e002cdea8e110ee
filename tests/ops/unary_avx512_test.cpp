// Ops of f32 in AVX-512 (elementwise_kernels/unary_avx512.h): within their bounds of the exact
// values, right at the ends, for rows of any length. Nothing to test on other processors, where
// exp_math_test.cpp looks at the plain forms.
#include "lathe/ops/elementwise_kernels/unary_avx512.h"

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <vector>

#include "lathe/core/x86_levels.h"

#if defined(__x86_64__)

using namespace lathe;

namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();

double ulp_of(double exact) { return std::ldexp(1.0, std::max(std::ilogb(exact), -126) - 23); }

/// Every 40,009th float from `first` to `last`, of both signs where `first` is below 0.
std::vector<float> floats_between(float first, float last) {
  std::vector<float> found;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += 40009) {
    const auto x = std::bit_cast<float>(static_cast<uint32_t>(bits));
    if (x >= first && x <= last) found.push_back(x);
  }
  return found;
}

/// The largest error of the row in ulp; infinite if a result is infinite, NaN or 0 where the exact
/// one is not.
template <class Exact>
double worst_error(cpu::UnaryRow* row, Exact exact, float first, float last) {
  const std::vector<float> x = floats_between(first, last);
  REQUIRE(x.size() > 50);
  std::vector<float> y(x.size());
  row(y.data(), x.data(), static_cast<int64_t>(x.size()));
  double worst = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    const double want = exact(static_cast<double>(x[i]));
    const auto rounded = static_cast<float>(want);
    if (rounded == 0 || std::isinf(rounded)) {
      if (std::bit_cast<uint32_t>(rounded) != std::bit_cast<uint32_t>(y[i])) return INFINITY;
      continue;
    }
    const double error = std::fabs(static_cast<double>(y[i]) - want) / ulp_of(want);
    if (!(error < INFINITY)) return INFINITY;  // also of NaN
    worst = std::max(worst, error);
  }
  return worst;
}

double sigmoid_at(double x) { return 1 / (1 + std::exp(-x)); }
double gelu_at(double x) { return x * 0.5 * std::erfc(-x / std::sqrt(2.0)); }
double gelu_tanh_at(double x) {
  return x * sigmoid_at(std::sqrt(8 / std::acos(-1.0)) * (x + 0.044715 * x * x * x));
}

float one(cpu::UnaryRow* row, float x) {
  row(&x, &x, 1);
  return x;
}

}  // namespace

TEST_CASE("rows in AVX-512: within their bounds") {
  if (!has_avx512()) return;
  using namespace cpu;
  CHECK(worst_error(
            exp_avx512, [](double x) { return std::exp(x); }, -kInf, kInf) < 1.1);
  CHECK(worst_error(
            log_avx512, [](double x) { return std::log(x); }, 0, kInf) < 1);
  CHECK(worst_error(
            sqrt_avx512, [](double x) { return std::sqrt(x); }, 0, kInf) <= 0.5);
  CHECK(worst_error(
            tanh_avx512, [](double x) { return std::tanh(x); }, -kInf, kInf) < 2);
  CHECK(worst_error(sigmoid_avx512, sigmoid_at, -kInf, kInf) < 3);
  const auto silu = [](double x) { return x * sigmoid_at(x); };
  CHECK(worst_error(silu_avx512, silu, -80, std::numeric_limits<float>::max()) < 4);
  CHECK(worst_error(gelu_avx512, gelu_at, -1.2f, std::numeric_limits<float>::max()) < 4);
  CHECK(worst_error(gelu_avx512, gelu_at, -4, 0) < 8);
  CHECK(worst_error(gelu_avx512, gelu_at, -12.5f, 0) < 100);
  CHECK(worst_error(gelu_tanh_avx512, gelu_tanh_at, -2, 1e10f) < 8);
  CHECK(worst_error(
            sin_avx512, [](double x) { return std::sin(x); }, -3000, 3000) < 0.51);
  CHECK(worst_error(
            cos_avx512, [](double x) { return std::cos(x); }, -3000, 3000) < 0.51);
}

TEST_CASE("rows in AVX-512: the ends") {
  if (!has_avx512()) return;
  using namespace cpu;
  const float nan = std::nanf("");
  for (UnaryRow* row : {exp_avx512, log_avx512, sqrt_avx512, tanh_avx512, sigmoid_avx512,
                        silu_avx512, gelu_avx512, gelu_tanh_avx512, sin_avx512, cos_avx512}) {
    CHECK(std::isnan(one(row, nan)));
  }
  CHECK(std::isnan(one(log_avx512, -1)));
  CHECK(std::isnan(one(log_avx512, -kInf)));
  CHECK(one(log_avx512, -0.0f) == -kInf);
  CHECK(one(log_avx512, kInf) == kInf);
  CHECK(std::isnan(one(sqrt_avx512, -1e-45f)));
  for (UnaryRow* odd : {sqrt_avx512, tanh_avx512, sin_avx512}) {
    CHECK(std::bit_cast<uint32_t>(one(odd, -0.0f)) == 0x80000000u);
  }
  CHECK(one(tanh_avx512, kInf) == 1);
  CHECK(one(tanh_avx512, -kInf) == -1);
  CHECK(one(gelu_avx512, kInf) == kInf);
  CHECK(std::isnan(one(gelu_avx512, -kInf)));  // -inf * 0, as in PyTorch
}

TEST_CASE("rows in AVX-512: any length, nothing behind it, in place") {
  if (!has_avx512()) return;
  using namespace cpu;
  for (UnaryRow* row : {exp_avx512, sin_avx512}) {
    for (const size_t n : {0, 1, 7, 8, 9, 15, 16, 17, 31, 32, 33, 63, 65, 100}) {
      std::vector<float> x(n + 1), y(n + 1, 7);
      for (size_t i = 0; i < n; ++i) x[i] = 0.1f * static_cast<float>(i);
      row(y.data(), x.data(), static_cast<int64_t>(n));
      CHECK(y[n] == 7);
      for (size_t i = 0; i < n; ++i) REQUIRE(y[i] == one(row, x[i]));
      row(x.data(), x.data(), static_cast<int64_t>(n));
      x[n] = 7;
      CHECK(x == y);
    }
  }
}

#endif
