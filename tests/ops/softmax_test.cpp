// softmax and log_softmax against the definition in f64.
#include "lathe/ops/softmax.h"

#include <limits>

#include "compare.h"
#include "lathe/autograd/autocast.h"
#include "lathe/ops/exp_math.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/reduce.h"

using namespace lathe;
using namespace lathe::test;

namespace {

constexpr double kInf = std::numeric_limits<double>::infinity();

struct Case {
  Shape x;
  int64_t dim;
};
const Case kCases[] = {
    {{3, 4}, 1},    {{3, 4}, 0}, {{2, 5, 3}, 1}, {{2, 3, 2, 5}, -3}, {{7}, 0},       {{4, 1}, 1},
    {{2, 1000}, 1}, {{}, 0},     {{0, 3}, 1},    {{3, 0}, 1},        {{300, 10}, 1},
};

std::vector<double> reference(const Tensor& x, int64_t dim_in, bool log) {
  std::vector<double> v = x.to_vector<double>();
  if (v.empty()) return v;
  const int dim = wrap_dim("test", dim_in, x.ndim());
  const int64_t n = x.ndim() == 0 ? 1 : x.shape()[dim];
  int64_t inner = 1;
  for (int d = dim + 1; d < x.ndim(); ++d) inner *= x.shape()[d];
  for (int64_t line = 0; line < x.numel() / n; ++line) {
    double* p = v.data() + line / inner * n * inner + line % inner;
    double m = -kInf, s = 0;
    for (int64_t i = 0; i < n; ++i) m = std::max(m, p[i * inner]);
    for (int64_t i = 0; i < n; ++i) s += std::exp(p[i * inner] - m);
    for (int64_t i = 0; i < n; ++i) {
      const double shifted = p[i * inner] - m;
      p[i * inner] = log ? shifted - std::log(s) : std::exp(shifted) / s;
    }
  }
  return v;
}

}  // namespace

TEST_CASE("softmax: values agree with the definition in every layout and dtype") {
  manual_seed(3);
  for (const Case& c : kCases) {
    const Tensor x = randn(c.x, {.dtype = kF64}) * 3.0;
    for (const Layout& layout : layouts()) {
      const Tensor y = layout.apply(x);
      CHECK(difference(softmax(y, c.dim), reference(x, c.dim, false), 1e-12).empty());
      CHECK(difference(log_softmax(y, c.dim), reference(x, c.dim, true), 1e-12).empty());
    }
    for (const DType dtype : {kF32, kF16, kBF16}) {
      const Tensor y = x.to(dtype);
      const double tol = tolerance_of(dtype);
      CHECK(difference(softmax(y, c.dim), reference(y, c.dim, false), tol).empty());
      CHECK(difference(log_softmax(y, c.dim), reference(y, c.dim, true), tol).empty());
      CHECK(softmax(y, c.dim).dtype() == dtype);
    }
  }
}

TEST_CASE("softmax: large and infinite logits") {
  for (const DType dtype : {kF64, kF32}) {
    const Tensor x = tensor({1e30, -1e30, 0.0}, kF64).to(dtype);
    CHECK(difference(softmax(x, 0), {1, 0, 0}, 0).empty());
    CHECK(difference(log_softmax(x, 0) * 1e-30, {0, -2, -1}, 1e-6).empty());
  }
  const Tensor masked = tensor({-kInf, 1.0, -kInf}, kF64);
  CHECK(difference(softmax(masked, 0), {0, 1, 0}, 0).empty());
  CHECK(difference(log_softmax(masked, 0), {-kInf, 0, -kInf}, 0).empty());
  for (const Tensor& bad :
       {tensor({-kInf, -kInf}), tensor({kInf, 1.0}, kF64), tensor({std::nan(""), 1.0}, kF64)}) {
    for (const Tensor& y : {softmax(bad, 0), log_softmax(bad, 0)}) {
      for (const double v : y.to_vector<double>()) CHECK(std::isnan(v));
    }
  }
}

TEST_CASE("softmax: gradients agree with finite differences") {
  for (const int64_t dim : {0, 1, 2}) {
    check_gradients(
        {"softmax", [dim](const Tensors& in) { return softmax(in[0], dim); }, {f64({2, 4, 3})}});
    check_gradients({"log_softmax",
                     [dim](const Tensors& in) { return log_softmax(in[0], dim); },
                     {f64({2, 4, 3})}});
  }
}

TEST_CASE("softmax: f32 under autocast, dtype kept without; errors") {
  const Tensor x = randn({2, 3}, {.dtype = kF16});
  CHECK(x.softmax(1).dtype() == kF16);
  {
    const Autocast half(kCPU, kF16);
    CHECK(softmax(x, 1).dtype() == kF32);
  }
  CHECK_THROWS_WITH_AS(softmax(zeros({2, 3}), 2), doctest::Contains("softmax: "), IndexError);
  CHECK_THROWS_WITH_AS(log_softmax(zeros({2}, {.dtype = kI64}), 0),
                       doctest::Contains("log_softmax: expected a floating dtype (x: i64[2]@cpu)"),
                       DTypeError);
}

TEST_CASE("fast_exp: within 2 ulp of e^x, right at the ends") {
  double worst = 0;
  for (double x = -87.3; x < 88.7; x += 0.00137) {
    const double exact = std::exp(static_cast<double>(static_cast<float>(x)));
    const double got = math::fast_exp(static_cast<float>(x));
    const double ulp = std::ldexp(1.0, std::ilogb(exact) - 23);
    worst = std::max(worst, std::fabs(got - exact) / ulp);
  }
  CHECK(worst < 2.0);
  const float inf = std::numeric_limits<float>::infinity();
  CHECK(math::fast_exp(0.0f) == 1.0f);
  CHECK(math::fast_exp(-inf) == 0.0f);
  CHECK(math::fast_exp(-105.0f) == 0.0f);
  CHECK(math::fast_exp(-100.0f) ==
        doctest::Approx(std::exp(-100.0)).epsilon(0.02));  // subnormal: few digits
  CHECK(math::fast_exp(88.8f) == inf);
  CHECK(math::fast_exp(inf) == inf);
  CHECK(std::isnan(math::fast_exp(std::nanf(""))));
}
