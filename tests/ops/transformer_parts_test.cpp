// rms_norm and rotary_embedding against their formulas. tests/nn/ has PyTorch's numbers.
#include <cmath>

#include "compare.h"
#include "lathe/core/random/generator.h"
#include "lathe/ops/random.h"
#include "lathe/ops/rms_norm.h"
#include "lathe/ops/rotary.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {

using In = const Tensors&;

/// The pair i of a token is a complex number, turned by exp(j p base^(-2i/D)).
std::vector<double> turned(const Tensor& x, const RotaryOptions& o) {
  std::vector<double> v = x.to_vector<double>();
  const int64_t T = x.dim(-2), D = x.dim(-1);
  for (int64_t row = 0; row < x.numel() / D; ++row) {
    for (int64_t i = 0; i < D / 2; ++i) {
      const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(D);
      const double angle = static_cast<double>(o.offset + row % T) * std::pow(o.base, exponent);
      double& a = v[static_cast<size_t>(row * D + (o.interleaved ? 2 * i : i))];
      double& b = v[static_cast<size_t>(row * D + (o.interleaved ? 2 * i + 1 : i + D / 2))];
      const double real = a * std::cos(angle) - b * std::sin(angle);
      b = b * std::cos(angle) + a * std::sin(angle);
      a = real;
    }
  }
  return v;
}

}  // namespace

TEST_CASE("transformer parts: rms_norm is x over its root mean square") {
  manual_seed(1);
  const Tensor weight = f64({3});
  const std::vector<double> w = weight.to_vector<double>();
  for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
    for (const Layout& layout : layouts()) {
      const Tensor x = layout.apply(f64({2, 4, 3}).to(dtype));
      std::vector<double> want = x.to_vector<double>();
      for (size_t row = 0; row < want.size(); row += 3) {
        double squares = 0;
        for (size_t i = row; i < row + 3; ++i) squares += want[i] * want[i] / 3;
        for (size_t i = row; i < row + 3; ++i) want[i] *= w[i - row] / std::sqrt(squares + 0.01);
      }
      const Tensor y = rms_norm(x, {3}, {.weight = weight.to(dtype), .eps = 0.01});
      CHECK(y.dtype() == dtype);
      CHECK(difference(y, want, 2 * tolerance_of(dtype)) == "");
    }
  }
  // Squares of half numbers overflow, and the smallest ones vanish.
  CHECK(difference(rms_norm(full({1, 4}, 300.0).to(kF16), {4}), std::vector<double>(4, 1), 1e-3) ==
        "");
  CHECK_THROWS_WITH_AS(rms_norm(zeros({2, 3}), {4}), Contains("must be [4]"), ShapeError);
  CHECK_THROWS_AS(rms_norm(zeros({2, 3}), {3}, {.weight = zeros(2)}), ShapeError);
  CHECK_THROWS_AS(rms_norm(zeros({2, 3}, {.dtype = kI64}), {3}), DTypeError);
}

TEST_CASE("transformer parts: rotary_embedding turns pairs by their position") {
  manual_seed(2);
  for (const RotaryOptions& o : {RotaryOptions{}, RotaryOptions{.offset = 7, .base = 50},
                                 RotaryOptions{.interleaved = true}}) {
    for (const Shape& shape : {Shape{2, 3, 5, 6}, Shape{4, 2}}) {
      for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
        for (const Layout& layout : layouts()) {
          const Tensor x = layout.apply(f64(shape).to(dtype));
          const Tensor y = rotary_embedding(x, o);
          CHECK(y.dtype() == dtype);
          CHECK(difference(y, turned(x, o), 2 * tolerance_of(dtype)) == "");
        }
      }
    }
  }
  CHECK_THROWS_WITH_AS(rotary_embedding(zeros({2, 3})), Contains("an even D"), ShapeError);
  CHECK_THROWS_AS(rotary_embedding(zeros({2, 4}), {.base = 0}), ValueError);
  CHECK_THROWS_AS(rotary_embedding(zeros({2, 4}, {.dtype = kI64})), DTypeError);
}

TEST_CASE("transformer parts: gradients agree with finite differences, twice") {
  manual_seed(3);
  const GradientCase cases[] = {
      {"rms_norm",
       [](In in) { return rms_norm(in[0], {3}, {.weight = in[1], .eps = 0.1}); },
       {f64({2, 3}), f64({3})}},
      {"rotary_embedding", [](In in) { return rotary_embedding(in[0]); }, {f64({2, 3, 4})}},
  };
  for (const GradientCase& c : cases) check_gradients(c);
}
