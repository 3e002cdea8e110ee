// cat and stack against element-by-element copies.
#include "lathe/ops/join.h"

#include "compare.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct Case {
  std::vector<Shape> parts;
  int64_t dim;
};
const Case kCases[] = {
    {{{2, 3}, {4, 3}}, 0},
    {{{2, 3}, {2, 1}, {2, 4}}, 1},
    {{{2, 3}, {2, 3}}, -1},
    {{{3}, {0}, {2}}, 0},         // a part of shape [0]
    {{{2, 0, 3}, {2, 4, 3}}, 1},  // zero-size along dim
    {{{0, 3}, {0, 2}}, 1},        // an empty result
    {{{0}, {2, 2}, {1, 2}}, 0},   // skipped although 1-d
    {{{0}, {0}}, 0},
    {{{2, 3, 4, 5}, {2, 1, 4, 5}}, 1},
    {{{5}}, 0},
};

/// The joined values in row-major order, from the definition.
std::vector<double> joined(const Tensors& parts, const Shape& shape, int dim) {
  std::vector<double> out;
  int64_t outer = 1;
  for (int d = 0; d < dim; ++d) outer *= shape[d];
  for (int64_t o = 0; o < outer; ++o) {
    for (const Tensor& t : parts) {
      const std::vector<double> values = t.to_vector<double>();
      const int64_t run = outer == 0 ? 0 : t.numel() / outer;
      for (int64_t i = 0; i < run; ++i) out.push_back(values[static_cast<size_t>(o * run + i)]);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("cat: the parts lie one after another, in every layout") {
  for (const Case& c : kCases) {
    for (const Layout& layout : layouts()) {
      CAPTURE(layout.name);
      Tensors parts;
      for (const Shape& s : c.parts) parts.push_back(layout.apply(randn(s)));
      const Tensor y = cat(parts, c.dim);
      CAPTURE(y.shape().vector().size());
      const int dim = static_cast<int>(c.dim < 0 ? c.dim + y.ndim() : c.dim);
      CHECK(difference(y, joined(parts, y.shape(), dim), 0) == "");
      CHECK(y.is_contiguous());
    }
  }
  CHECK(cat({zeros({0}), zeros({2, 2})}).shape() == Shape{2, 2});
}

TEST_CASE("cat: dtypes are promoted and NHWC stays NHWC") {
  const Tensor y = cat({tensor({1, 2}), tensor({0.5f})});
  CHECK(y.dtype() == kF32);
  CHECK(difference(y, {1, 2, 0.5}, 0) == "");
  CHECK(cat({cast(ones({1}), kF16), cast(ones({1}), kBF16)}).dtype() == kF32);
  const Tensor a = randn({2, 3, 4, 4}), b = randn({2, 5, 4, 4});
  const Tensor nhwc = cat({a.contiguous(kChannelsLast), b.contiguous(kChannelsLast)}, 1);
  CHECK(nhwc.is_contiguous(kChannelsLast));
  CHECK(difference(nhwc, cat({a, b}, 1), 0) == "");
  const Tensor parts = cat({narrow(nhwc, 1, 2, 3), b.contiguous(kChannelsLast)}, 1);
  CHECK(parts.is_contiguous(kChannelsLast));
  CHECK(difference(parts, cat({narrow(nhwc.contiguous(), 1, 2, 3), b}, 1), 0) == "");
  CHECK(cat({narrow(nhwc, 1, 2, 3), b}, 1).is_contiguous());
  // One pixel fits both orders; its strides decide, as for a convolution.
  const Tensor pixel = ones({2, 1, 1, 4}).permute({0, 3, 1, 2});
  CHECK(cat({pixel, pixel}, 1).strides() == Strides{8, 1, 8, 8});
  CHECK(cat({pixel, ones({2, 4, 1, 1})}, 1).strides() == Strides{8, 1, 1, 1});
}

TEST_CASE("cat, stack: gradients agree with finite differences, twice") {
  check_gradients({"cat",
                   [](const Tensors& in) { return cat(in, 1); },
                   {f64({2, 3}), f64({2, 1}), f64({2, 2})}});
  check_gradients({"cat of one tensor twice",
                   [](const Tensors& in) {
                     return cat({in[0], in[0]}, 0);
                   },
                   {f64({2, 3})}});
  check_gradients(
      {"stack", [](const Tensors& in) { return stack(in, -1); }, {f64({2, 3}), f64({2, 3})}});
  check_gradients(
      {"stack of numbers", [](const Tensors& in) { return stack(in); }, {f64({}), f64({})}});
}

TEST_CASE("cat: the gradient of a part has its dtype and shape, also when it was skipped") {
  const Tensor a = cast(ones({2}), kF16).requires_grad_(), b = ones({1}).requires_grad_();
  const Tensor none = zeros({0}).requires_grad_();
  cat({none, a, b}).backward(tensor({1.f, 2.f, 3.f}));
  CHECK(a.grad().dtype() == kF16);
  CHECK(difference(a.grad(), {1, 2}, 0) == "");
  CHECK(difference(b.grad(), {3}, 0) == "");
  CHECK(none.grad().shape() == Shape{0});
}

TEST_CASE("stack: 0-d tensors become a vector") {
  CHECK(difference(stack({tensor(1.f), tensor(2.f)}), {1, 2}, 0) == "");
  CHECK(stack({zeros({2, 3}), zeros({2, 3})}, 1).shape() == Shape{2, 2, 3});
}

TEST_CASE("cat, stack: errors name the parts") {
  CHECK_THROWS_WITH_AS(cat({}), doctest::Contains("cat: there is nothing to join"), ValueError);
  CHECK_THROWS_WITH_AS(stack({}), doctest::Contains("nothing to join"), ValueError);
  CHECK_THROWS_WITH_AS(
      cat({zeros({2, 3}), zeros({2, 4})}, 0),
      doctest::Contains(
          "part 1 differs outside dimension 0 (part 1: f32[2,4]@cpu, another: f32[2,3]@cpu"),
      ShapeError);
  CHECK_THROWS_AS(cat({zeros({2, 3}), zeros({2})}, 0), ShapeError);
  CHECK_THROWS_WITH_AS(cat({tensor(1.f)}), doctest::Contains("0-d tensor"), ShapeError);
  CHECK_THROWS_AS(cat({zeros({2})}, 1), IndexError);
  CHECK_THROWS_WITH_AS(stack({zeros({2}), zeros({3})}), doctest::Contains("part 1: f32[3]@cpu"),
                       ShapeError);
}

TEST_CASE("hstack, vstack, dstack: shapes and values as PyTorch's") {
  const Tensor a = tensor({1.f, 2.f}), b = tensor({3.f, 4.f}), m = tensor({{5.f, 6.f}});
  CHECK(difference(hstack({a, tensor({3.f})}), {1, 2, 3}, 0) == "");
  CHECK(difference(hstack({m, m}), tensor({{5.f, 6.f, 5.f, 6.f}}), 0) == "");
  CHECK(difference(vstack({a, b}), tensor({{1.f, 2.f}, {3.f, 4.f}}), 0) == "");
  CHECK(difference(vstack({a, m}), tensor({{1.f, 2.f}, {5.f, 6.f}}), 0) == "");
  CHECK(dstack({a, b}).shape() == Shape{1, 2, 2});
  CHECK(difference(dstack({a, b}), {1, 3, 2, 4}, 0) == "");
  CHECK(dstack({m, m}).shape() == Shape{1, 2, 2});
  CHECK(hstack({tensor(1.f), tensor(2.f)}).shape() == Shape{2});
  CHECK(vstack({tensor(1.f), tensor(2.f)}).shape() == Shape{2, 1});
  CHECK_THROWS_AS(hstack({}), ValueError);
  CHECK_THROWS_AS(vstack({a, tensor({1.f})}), ShapeError);
}

TEST_CASE("hstack, vstack, dstack: gradients agree with finite differences, twice") {
  const Tensor a = f64({2, 3}), b = f64({2, 3});
  const GradientCase cases[] = {
      {"hstack",
       [](const Tensors& in) {
         return hstack({in[0], in[1]});
       },
       {a, b}},
      {"vstack",
       [](const Tensors& in) {
         return vstack({in[0], in[1]});
       },
       {a, b}},
      {"dstack",
       [](const Tensors& in) {
         return dstack({in[0], in[1]});
       },
       {a, b}},
  };
  for (const GradientCase& c : cases) check_gradients(c);
}
