// sin, cos, tan, atan2 and pow of f32 on the CPU: within their bounds of the exact values, right at
// the ends, and with the same bits in rows as alone (ops/elementwise_kernels/angle_forms.h).
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <vector>

#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/join.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

using namespace lathe;

namespace {

const float kInf = std::numeric_limits<float>::infinity(),
            kNaN = std::numeric_limits<float>::quiet_NaN();
const std::vector<float> kEnds = {0,      -0.0f,   1,     -1,     kInf,       -kInf, kNaN,
                                  1e-45f, -1e-45f, 3e38f, -3e38f, 2.5f,       -2.5f, 2,
                                  -2,     3,       -3,    0.5f,   16777216.0f};

double ulp_of(double exact) { return std::ldexp(1.0, std::max(std::ilogb(exact), -126) - 23); }

/// The largest error of got[i] in ulp of the exact value; infinities and NaN must agree.
double worst_error(const std::vector<float>& got, const std::function<double(size_t)>& exact) {
  double worst = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    const double want = exact(i);
    const auto rounded = static_cast<float>(want);
    if (!std::isfinite(rounded) || want == 0) {
      CHECK_MESSAGE((std::isnan(rounded) ? std::isnan(got[i]) : got[i] == rounded), "element ", i,
                    ": ", got[i], ", not ", rounded);
      if (want == 0) CHECK(std::signbit(got[i]) == std::signbit(want));
      continue;
    }
    if (std::isnan(got[i])) return INFINITY;  // max() would drop it
    worst = std::max(worst, std::fabs(static_cast<double>(got[i]) - want) / ulp_of(want));
  }
  return worst;
}

/// Numbers of both signs whose distance grows with their size, and neighbours of n pi / 2.
std::vector<float> angles(double most) {
  std::vector<float> values;
  for (double x = 1e-44; x <= most; x *= 1.00037) {
    values.push_back(static_cast<float>(x));
    values.push_back(static_cast<float>(-x));
  }
  for (int n = 1; n * M_PI / 2 < most; n += 1 + n / 2000) {
    const auto near = std::bit_cast<uint32_t>(static_cast<float>(n * M_PI / 2));
    for (uint32_t step = 0; step < 5; ++step) {
      values.push_back(std::bit_cast<float>(near - 2 + step));
    }
  }
  return values;
}

/// f of a dense row, of a strided one and of single numbers has the same bits.
void check_same_bits(const std::function<Tensor(const Tensor&, const Tensor&)>& f,
                     const std::vector<float>& a, const std::vector<float>& b) {
  const Tensor x = tensor(a), y = tensor(b);
  const auto row = f(x, y).to_vector<float>();
  const auto strided =
      f(stack({x, x}, 1).select(1, 0), stack({y, y}, 1).select(1, 0)).to_vector<float>();
  for (size_t i = 0; i < a.size(); ++i) {
    const float alone = f(tensor(a[i]), tensor(b[i])).item<float>();
    if (std::isnan(alone)) {
      CHECK(std::isnan(row[i]));
      CHECK(std::isnan(strided[i]));
      continue;
    }
    CHECK(std::bit_cast<uint32_t>(row[i]) == std::bit_cast<uint32_t>(alone));
    CHECK(std::bit_cast<uint32_t>(strided[i]) == std::bit_cast<uint32_t>(alone));
  }
}

}  // namespace

TEST_CASE("sin, cos, tan: within 0.51 ulp up to 3000, libm's above, right at the ends") {
  struct Case {
    Tensor (*op)(const Tensor&);
    double (*exact)(double);
    double ulps;
  };
  const std::vector<float> values = angles(2990), large = angles(1e7);
  for (const auto& [op, exact, ulps] :
       {Case{sin, std::sin, 0.51}, {cos, std::cos, 0.51}, {tan, std::tan, 0.51}}) {
    for (const auto* x : {&values, &large, &kEnds}) {
      const auto wanted = [x, e = exact](size_t i) { return e(static_cast<double>((*x)[i])); };
      const double most = x == &large ? 2 : ulps;  // the library's functions
      CHECK(worst_error(op(tensor(*x)).to_vector<float>(), wanted) < most);
    }
    std::vector<float> mixed = kEnds;  // a block that also holds large angles
    for (int i = 0; i < 3000; ++i) mixed.push_back(static_cast<float>(i * i - 40000) * 0.0153f);
    const auto of_one = [op = op](const Tensor& x, const Tensor&) { return op(x); };
    check_same_bits(of_one, mixed, mixed);
    std::vector<float> inside;  // blocks that the form computes, and a part of one
    for (int i = 0; i < 2500; ++i) inside.push_back(static_cast<float>(i - 1200) * 2.3157f);
    check_same_bits(of_one, inside, inside);
  }
  CHECK(cos(tensor(0.0f)).item<float>() == 1);
}

TEST_CASE("atan2: within 2 ulp, right at the ends and on the axes") {
  std::vector<float> y, x;
  for (const float a : kEnds) {
    for (const float b : kEnds) y.push_back(a), x.push_back(b);
  }
  for (int i = 0; i < 200000; ++i) {
    const double angle = i * 0.0317, size = std::exp2(i % 97 - 48);
    y.push_back(static_cast<float>(size * std::sin(angle)));
    x.push_back(static_cast<float>(size * std::cos(angle) * (1 + i % 3)));
  }
  const auto exact = [&](size_t i) {
    return std::atan2(static_cast<double>(y[i]), static_cast<double>(x[i]));
  };
  CHECK(worst_error(atan2(tensor(y), tensor(x)).to_vector<float>(), exact) < 2);
  y.resize(2000), x.resize(2000);
  check_same_bits([](const Tensor& a, const Tensor& b) { return atan2(a, b); }, y, x);
}

TEST_CASE("pow: within an ulp, right at the ends, squares and cubes are products") {
  std::vector<float> a, b;
  for (const float base : kEnds) {
    for (const float exponent : kEnds) a.push_back(base), b.push_back(exponent);
  }
  for (int i = 0; i < 200000; ++i) {
    a.push_back(static_cast<float>(std::exp(std::sin(i * 0.37) * (1 + i % 80))));
    b.push_back(static_cast<float>(std::sin(i * 0.0173) * (1 + i % 13)));
    if (i % 5 == 0) a.back() = -a.back(), b.back() = std::round(b.back());
  }
  const Tensor x = tensor(a), y = tensor(b);
  const auto exact = [&](size_t i) {
    const auto base = static_cast<double>(a[i]);
    return std::pow(base, static_cast<double>(b[i]));
  };
  // A cube is rounded twice.
  CHECK(worst_error(pow(x, y).to_vector<float>(), exact) < 1.5);
  for (const double exponent : {2.0, 3.0, 0.5, -1.0, -2.0, 4.0, 0.0, 1.0}) {
    const auto wanted = [&](size_t i) { return std::pow(static_cast<double>(a[i]), exponent); };
    CHECK(worst_error(pow(x, full({}, exponent, {.dtype = kF32})).to_vector<float>(), wanted) <
          1.5);
  }
  a.resize(2000), b.resize(2000);
  check_same_bits([](const Tensor& u, const Tensor& v) { return pow(u, v); }, a, b);
}
