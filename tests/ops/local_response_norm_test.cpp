// local_response_norm against the definition.
#include "lathe/ops/local_response_norm.h"

#include <cmath>

#include "compare.h"

using namespace lathe;
using namespace lathe::test;

namespace {

using In = const Tensors&;

std::vector<double> by_definition(const Tensor& x, const LocalResponseNormOptions& o) {
  const std::vector<double> values = x.to_vector<double>();
  const int64_t channels = x.dim(1), inner = x.numel() / (x.dim(0) * channels);
  std::vector<double> out;
  for (int64_t at = 0; at < x.numel(); ++at) {
    const int64_t c = at / inner % channels;
    double sum = 0;
    for (int64_t j = c - o.size / 2; j <= c + (o.size - 1) / 2; ++j) {
      if (j < 0 || j >= channels) continue;
      const double v = values[static_cast<size_t>(at + (j - c) * inner)];
      sum += v * v;
    }
    const double scale = o.k + o.alpha / static_cast<double>(o.size) * sum;
    out.push_back(values[static_cast<size_t>(at)] / std::pow(scale, o.beta));
  }
  return out;
}

}  // namespace

TEST_CASE("local_response_norm: values agree with the definition in every layout and dtype") {
  manual_seed(5);
  for (const int64_t size : {1, 2, 3, 5, 9}) {
    CAPTURE(size);
    const LocalResponseNormOptions o{.size = size, .alpha = 0.5, .beta = 0.7, .k = 1.5};
    for (const Shape& shape : {Shape{2, 4, 3, 2}, Shape{2, 5, 3}}) {
      for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
        for (const Layout& layout : layouts()) {
          const Tensor x = layout.apply(randn(shape, kF64).to(dtype));
          const Tensor y = local_response_norm(x, o);
          CHECK(y.dtype() == dtype);
          CHECK(difference(y, by_definition(x, o), 4 * tolerance_of(dtype)) == "");
        }
      }
    }
  }
}

TEST_CASE("local_response_norm: squares of half numbers do not overflow") {
  const Tensor x = full({1, 1, 1}, 300.0);
  CHECK(difference(local_response_norm(x.to(kF16)), local_response_norm(x), 1e-3) == "");
}

TEST_CASE("local_response_norm: gradients agree with finite differences, twice") {
  manual_seed(6);
  const GradientCase c = {
      "local_response_norm",
      [](In in) { return local_response_norm(in[0], {.size = 3, .alpha = 0.5}); },
      {randn({2, 4, 3}, kF64)}};
  check_gradients(c);
}

TEST_CASE("local_response_norm: bad calls are refused") {
  CHECK_THROWS_AS(local_response_norm(zeros({2, 3})), ShapeError);
  CHECK_THROWS_AS(local_response_norm(zeros({2, 3, 4}), {.size = 0}), ValueError);
  CHECK_THROWS_AS(local_response_norm(zeros({2, 3, 4}, kI64)), DTypeError);
}
