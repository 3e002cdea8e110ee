// layer_norm against the definition in f64, in every layout and dtype; gradients, digits, errors.
#include "lathe/ops/layer_norm.h"

#include "lathe/autograd/autocast.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/reduce.h"
#include "normalised_rows.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct LayerCase {
  Shape x, normalized;
};
const LayerCase kLayerCases[] = {
    {{3, 4}, {4}},    {{2, 3, 5}, {3, 5}}, {{2, 3, 5}, {5}},    {{7}, {7}},
    {{70, 33}, {33}}, {{4, 1}, {1}},       {{2, 3000}, {3000}}, {{0, 4}, {4}},
};

}  // namespace

TEST_CASE("layer_norm: values agree with the definition in every layout and dtype") {
  manual_seed(9);
  for (const LayerCase& c : kLayerCases) {
    const Tensor wide = f64(c.x);
    const auto size = static_cast<size_t>(numel_of(c.normalized));
    for_affine(c.normalized, [&](const Tensor& w, const Tensor& b) {
      for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
        for (const Layout& layout : layouts()) {
          const Tensor x = layout.apply(wide.to(dtype)), wt = in_dtype(w, dtype),
                       bt = in_dtype(b, dtype);
          const Tensor y = layer_norm(x, c.normalized, {.weight = wt, .bias = bt});
          const Values want =
              normalised_rows(x.to_vector<double>(), size, 1, 1, values_of(wt), values_of(bt));
          const std::string wrong = difference(y, want, tolerance_of(dtype));
          CHECK_MESSAGE(wrong.empty(), concat(x, " ", layout.name, ": "), wrong);
          CHECK(y.dtype() == dtype);
        }
      }
    });
  }
}

TEST_CASE("layer_norm: gradients agree with finite differences") {
  manual_seed(11);
  // eps = 0.1: an expanded input has variance 0, where 1 / sqrt(1e-5) is too steep for finite
  // differences.
  const auto affine = [](const Tensors& in) {
    return layer_norm(in[0], {4}, {.weight = in[1], .bias = in[2], .eps = 0.1});
  };
  check_gradients({"layer_norm", affine, {f64({2, 3, 4}), f64({4}), f64({4})}});
  check_gradients({"layer_norm plain",
                   [](const Tensors& in) {
                     return layer_norm(in[0], {3, 4}, {.eps = 0.1});
                   },
                   {f64({2, 3, 4})}});
}

TEST_CASE("layer_norm: the fused gradient equals the one made of ops") {
  check_fused_gradient({6, 5}, [](const Tensor& x, const Tensor& w, const Tensor& b) {
    return layer_norm(x, {6, 5}, {.weight = w, .bias = b});
  });
}

TEST_CASE("layer_norm: digits, autocast, threads") {
  // Far from 0 the variance is still taken about the mean.
  const Tensor x = randn({4, 512}, {.dtype = kF64});
  CHECK(difference(layer_norm((x + 1e3).to(kF32), {512}), layer_norm(x, {512}), 1e-3).empty());
  CHECK(layer_norm(full({2, 8}, 3.5f), {8}).to_vector<double>() == Values(16, 0.0));
  const Tensor many = randn({500, 100}, {.requires_grad = true});
  const int before = num_threads();
  Tensors gradients;
  for (const int threads : {1, 4}) {
    set_num_threads(threads);
    const Tensor w = ones({100}, {.requires_grad = true});
    layer_norm(many, {100}, {.weight = w}).square().sum().backward();
    gradients.push_back(w.grad());
  }
  set_num_threads(before);
  CHECK(difference(gradients[1], gradients[0], 0).empty());
  const Autocast half(kCPU, kF16);
  CHECK(layer_norm(zeros({2, 3}, {.dtype = kF16}), {3}).dtype() == kF32);
}

TEST_CASE("layer_norm: errors name the op and the values") {
  const Tensor x = zeros({2, 6});
  CHECK_THROWS_WITH_AS(
      layer_norm(x, {5}),
      doctest::Contains("layer_norm: the last dimensions of x must be [5] (x: f32[2,6]@cpu)"),
      ShapeError);
  CHECK_THROWS_AS(layer_norm(x, {}), ShapeError);
  CHECK_THROWS_AS(layer_norm(x, {1, 2, 6}), ShapeError);
  CHECK_THROWS_AS(layer_norm(x, {6}, {.weight = ones({5})}), ShapeError);
  CHECK_THROWS_AS(layer_norm(x, {6}, {.bias = ones({6}, {.dtype = kI64})}), DTypeError);
  CHECK_THROWS_AS(layer_norm(x.to(kI64), {6}), DTypeError);
}
