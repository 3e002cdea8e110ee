// layer_norm and group_norm against the definition in f64: both are rows that are normalised
// (ops/row_norm.h).
#include "lathe/ops/layer_norm.h"

#include "compare.h"
#include "lathe/autograd/autocast.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/group_norm.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/reduce.h"

using namespace lathe;
using namespace lathe::test;

namespace {

using Values = std::vector<double>;

/// Rows of `size` adjacent numbers; channel of number i of row r: r % groups * (size / inner) + i /
/// inner.
Values reference(Values v, size_t size, size_t groups, size_t inner, const Values& weight,
                 const Values& bias) {
  for (size_t r = 0; size > 0 && r < v.size() / size; ++r) {
    double* row = v.data() + r * size;
    double mean = 0, var = 0;
    for (size_t i = 0; i < size; ++i) mean += row[i] / static_cast<double>(size);
    for (size_t i = 0; i < size; ++i)
      var += (row[i] - mean) * (row[i] - mean) / static_cast<double>(size);
    for (size_t i = 0; i < size; ++i) {
      const size_t c = r % groups * (size / inner) + i / inner;
      row[i] = (row[i] - mean) / std::sqrt(var + 1e-5) * (weight.empty() ? 1 : weight[c]) +
               (bias.empty() ? 0 : bias[c]);
    }
  }
  return v;
}

struct LayerCase {
  Shape x, normalized;
};
const LayerCase kLayerCases[] = {
    {{3, 4}, {4}},    {{2, 3, 5}, {3, 5}}, {{2, 3, 5}, {5}},    {{7}, {7}},
    {{70, 33}, {33}}, {{4, 1}, {1}},       {{2, 3000}, {3000}}, {{0, 4}, {4}},
};
struct GroupCase {
  Shape x;
  int64_t groups;
};
const GroupCase kGroupCases[] = {
    {{2, 4, 3, 5}, 2}, {{2, 4, 3, 5}, 1}, {{2, 4, 3, 5}, 4}, {{3, 6}, 3},
    {{2, 6, 7}, 2},    {{40, 4, 9}, 2},   {{0, 4, 3}, 2},
};

/// weight and bias: none, one of them, both.
template <class F>
void for_affine(const Shape& shape, F f) {
  const Tensor w = f64(shape), b = f64(shape);
  f(Tensor(), Tensor());
  f(w, Tensor());
  f(Tensor(), b);
  f(w, b);
}
Values values_of(const Tensor& t) { return t.defined() ? t.to_vector<double>() : Values(); }
Tensor in_dtype(const Tensor& t, DType dtype) { return t.defined() ? t.to(dtype) : t; }

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
              reference(x.to_vector<double>(), size, 1, 1, values_of(wt), values_of(bt));
          const std::string wrong = difference(y, want, tolerance_of(dtype));
          CHECK_MESSAGE(wrong.empty(), concat(x, " ", layout.name, ": "), wrong);
          CHECK(y.dtype() == dtype);
        }
      }
    });
  }
}

TEST_CASE("group_norm: values agree with the definition in every layout and dtype") {
  manual_seed(10);
  for (const GroupCase& c : kGroupCases) {
    const Tensor wide = f64(c.x);
    const int64_t inner = numel_of(c.x) == 0 ? 1 : numel_of(c.x) / (c.x[0] * c.x[1]);
    const auto size = static_cast<size_t>(c.x[1] / c.groups * inner);
    for_affine({c.x[1]}, [&](const Tensor& w, const Tensor& b) {
      for (const DType dtype : {kF64, kF32, kF16, kBF16}) {
        for (const Layout& layout : layouts()) {
          const Tensor x = layout.apply(wide.to(dtype)), wt = in_dtype(w, dtype),
                       bt = in_dtype(b, dtype);
          const Values want = reference(x.to_vector<double>(), size, static_cast<size_t>(c.groups),
                                        static_cast<size_t>(inner), values_of(wt), values_of(bt));
          const std::string wrong = difference(group_norm(x, c.groups, {.weight = wt, .bias = bt}),
                                               want, tolerance_of(dtype));
          CHECK_MESSAGE(wrong.empty(), concat(x, " ", layout.name, ": "), wrong);
        }
      }
    });
  }
}

TEST_CASE("layer_norm, group_norm: gradients agree with finite differences") {
  manual_seed(11);
  const auto layer = [](const Tensors& in) {
    return layer_norm(in[0], {4}, {.weight = in[1], .bias = in[2], .eps = 0.1});
  };
  const auto group = [](const Tensors& in) {
    return group_norm(in[0], 2, {.weight = in[1], .bias = in[2], .eps = 0.1});
  };
  // eps = 0.1: an expanded input has variance 0, where 1 / sqrt(1e-5) is too steep for finite
  // differences.
  check_gradients({"layer_norm", layer, {f64({2, 3, 4}), f64({4}), f64({4})}});
  check_gradients({"group_norm", group, {f64({2, 4, 3}), f64({4}), f64({4})}});
  check_gradients({"layer_norm plain",
                   [](const Tensors& in) {
                     return layer_norm(in[0], {3, 4}, {.eps = 0.1});
                   },
                   {f64({2, 3, 4})}});
  check_gradients({"group_norm plain",
                   [](const Tensors& in) { return group_norm(in[0], 3, {.eps = 0.1}); },
                   {f64({2, 3, 2, 2})}});
}

TEST_CASE("layer_norm, group_norm: the fused gradient equals the one made of ops") {
  manual_seed(12);
  for (const DType dtype : {kF64, kF32, kF16}) {
    for (const bool layer : {true, false}) {
      const Tensor x = randn({70, 6, 5}, {.dtype = dtype, .requires_grad = true});
      const Shape affine = layer ? Shape{6, 5} : Shape{6};
      const Tensor w = randn(affine, {.dtype = dtype, .requires_grad = true}),
                   b = zeros(affine, {.dtype = dtype, .requires_grad = true});
      const Tensor dy = randn(x.shape(), {.dtype = dtype});
      std::vector<Tensors> gradients;
      for (const bool create_graph : {false, true}) {
        const Tensor y = layer ? layer_norm(x, affine, {.weight = w, .bias = b})
                               : group_norm(x, 3, {.weight = w, .bias = b});
        y.backward({.gradient = dy, .create_graph = create_graph});
        gradients.push_back(
            {x.grad().detach().clone(), w.grad().detach().clone(), b.grad().detach().clone()});
        for (const Tensor& t : {x, w, b}) t.set_grad({});
      }
      for (size_t i = 0; i < 3; ++i) {
        CHECK(difference(gradients[0][i], gradients[1][i], 4 * tolerance_of(dtype)).empty());
        CHECK(gradients[0][i].dtype() == dtype);
      }
    }
  }
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
  CHECK(group_norm(zeros({2, 3}, {.dtype = kF16}), 3).dtype() == kF32);
}

TEST_CASE("layer_norm, group_norm: errors name the op and the values") {
  const Tensor x = zeros({2, 6});
  CHECK_THROWS_WITH_AS(
      layer_norm(x, {5}),
      doctest::Contains("layer_norm: the last dimensions of x must be [5] (x: f32[2,6]@cpu)"),
      ShapeError);
  CHECK_THROWS_AS(layer_norm(x, {}), ShapeError);
  CHECK_THROWS_AS(layer_norm(x, {1, 2, 6}), ShapeError);
  CHECK_THROWS_AS(layer_norm(x, {6}, {.weight = ones({5})}), ShapeError);
  CHECK_THROWS_AS(layer_norm(x.to(kI64), {6}), DTypeError);
  CHECK_THROWS_WITH_AS(
      group_norm(x, 4),
      doctest::Contains("group_norm: 6 channels do not divide into 4 groups (x: f32[2,6]@cpu)"),
      ShapeError);
  CHECK_THROWS_WITH_AS(group_norm(x, 0), doctest::Contains("groups must be positive, got 0"),
                       ValueError);
  CHECK_THROWS_AS(group_norm(zeros({6}), 2), ShapeError);
  CHECK_THROWS_AS(group_norm(x, 2, {.bias = ones({2})}), ShapeError);
}
