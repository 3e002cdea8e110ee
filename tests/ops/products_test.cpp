// dot, outer and kron against the definition.
#include "lathe/ops/products.h"

#include "compare.h"
#include "lathe/autograd/autocast.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/reduce.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

using In = const Tensors&;

TEST_CASE("products: values in every layout") {
  for (const Layout& layout : layouts()) {
    CAPTURE(layout.name);
    const Tensor a = layout.apply(tensor({1.0, -2.0, 3.0}, kF64)),
                 b = layout.apply(tensor({4.0, 5.0}, kF64));
    CHECK(difference(outer(a, b), {4, 5, -8, -10, 12, 15}, 0) == "");
    CHECK(difference(dot(a, a), {14}, 0) == "");
    const Tensor m = layout.apply(tensor({{1, 2}, {3, 4}}));
    const Tensor n = layout.apply(tensor({{0, 5, 6}, {6, 7, 8}}));
    CHECK(kron(m, n).shape() == Shape{4, 6});
    CHECK(difference(kron(m, n), {0, 5,  6,  0, 10, 12, 6,  7,  8,  12, 14, 16,
                                  0, 15, 18, 0, 20, 24, 18, 21, 24, 24, 28, 32},
                     0) == "");
  }
  CHECK(difference(kron(tensor({1, 2}), tensor({{1}, {3}})), tensor({{1, 2}, {3, 6}}), 0) == "");
  CHECK(kron(tensor(2), tensor(3)).item<int>() == 6);
  CHECK(outer(tensor({2}), tensor({0.5}, kF64)).dtype() == kF64);
  CHECK(outer(zeros({0}), zeros({3})).shape() == Shape{0, 3});
  CHECK(dot(zeros({0}), zeros({0})).item<float>() == 0);
  CHECK(kron(zeros({2, 0}), zeros({3})).shape() == Shape{2, 0});
  CHECK(dot(tensor({2, 3}), tensor({4, 5})).item<int>() == 23);
}

TEST_CASE("kron: blocks in four dimensions") {
  const Tensor a = randn({2, 3, 2, 1}), b = randn({1, 2, 2, 3});
  const Tensor blocks = a.view({2, 1, 3, 1, 2, 1, 1, 1}) * b.view({1, 1, 1, 2, 1, 2, 1, 3});
  CHECK(difference(kron(a, b), blocks.reshape({2, 6, 4, 3}), 0) == "");
  CHECK(difference(kron(b, a),
                   (b.view({1, 1, 2, 1, 2, 1, 3, 1}) * a.view({1, 2, 1, 3, 1, 2, 1, 1}))
                       .reshape({2, 6, 4, 3}),
                   0) == "");
}

TEST_CASE("kron: as many dimensions as a tensor can have") {
  const Tensor a = randn({2, 1, 2, 1, 2, 1, 1, 2}), b = randn({1, 2, 2, 1, 1, 1, 2, 2});
  const Tensor y = kron(a, b);
  CHECK(y.shape() == Shape{2, 2, 4, 1, 2, 1, 2, 4});
  // The element at a's and b's places [1,0,1,0,1,0,0,1] and [0,1,0,0,0,0,1,1].
  Tensor at = y, in_a = a, in_b = b;
  for (const int64_t i : {1, 1, 2, 0, 1, 0, 1, 3}) at = at[i];
  for (const int64_t i : {1, 0, 1, 0, 1, 0, 0, 1}) in_a = in_a[i];
  for (const int64_t i : {0, 1, 0, 0, 0, 0, 1, 1}) in_b = in_b[i];
  CHECK(at.item<float>() == in_a.item<float>() * in_b.item<float>());
}

TEST_CASE("tensordot: values of PyTorch, in every layout") {
  for (const Layout& layout : layouts()) {
    CAPTURE(layout.name);
    const Tensor a = layout.apply(arange(12, {.dtype = kF32}).view({2, 3, 2}));
    const Tensor b = layout.apply(arange(12, {.dtype = kF32}).view({3, 2, 2}));
    // torch.tensordot(a, b, dims=2), dims=([1, 0], [0, 2])
    CHECK(difference(tensordot(a, b), tensor({{110.f, 125.f}, {290.f, 341.f}}), 0) == "");
    CHECK(difference(tensordot(a, b, {1, 0}, {0, 2}), tensor({{176.f, 236.f}, {203.f, 275.f}}),
                     0) == "");
    CHECK(tensordot(a, b, 0).shape() == Shape{2, 3, 2, 3, 2, 2});
    CHECK(tensordot(a, a, 3).ndim() == 0);
  }
  CHECK_THROWS_WITH_AS(tensordot(zeros({2, 3}), zeros({2, 3}), 1),
                       Contains("tensordot: the sizes of dimensions"), ShapeError);
  CHECK_THROWS_AS(tensordot(zeros({2}), zeros({2}), 2), ValueError);
  CHECK_THROWS_AS(tensordot(zeros({2, 2}), zeros({2, 2}), {0, 0}, {0, 1}), IndexError);
}

TEST_CASE("dot, tensordot: Autocast brings the operands to one dtype") {
  const Tensor a = ones({4}), b = ones({4}, {.dtype = kF16});
  const Autocast half(kCPU, kBF16);
  CHECK(dot(a, b).dtype() == kBF16);
  CHECK(tensordot(a, b, 1).dtype() == kBF16);
  CHECK(tensordot(a, b, 1).item<float>() == 4);
}

TEST_CASE("dot: long vectors, the same bits with any number of threads") {
  manual_seed(6);
  const Tensor a = randn({200'003}), b = randn({200'003});
  const int before = num_threads();
  set_num_threads(1);
  const auto one = dot(a, b).item<float>();
  set_num_threads(3);
  CHECK(dot(a, b).item<float>() == one);
  set_num_threads(before);
  const double want = (a.to(kF64) * b.to(kF64)).sum().item<double>();
  CHECK(std::fabs(static_cast<double>(one) - want) < 1e-2);
  const Tensor rows = randn({3, 1, 70}), columns = randn({3, 70, 1});
  CHECK(difference(bmm(rows, columns), (rows.transpose(1, 2) * columns).sum({1}, true), 1e-5) ==
        "");
  CHECK(difference(matmul(rows.to(kF64), columns.to(kF64)).view({3}),
                   (rows.transpose(1, 2).to(kF64) * columns.to(kF64)).sum({1, 2}), 1e-13) == "");
}

TEST_CASE("products: gradients agree with finite differences, twice") {
  manual_seed(5);
  const GradientCase cases[] = {
      {"dot", [](In in) { return dot(in[0], in[1]); }, {f64({4}), f64({4})}},
      {"outer", [](In in) { return outer(in[0], in[1]); }, {f64({4}), f64({3})}},
      {"kron", [](In in) { return kron(in[0], in[1]); }, {f64({2, 3}), f64({3, 2})}},
      {"tensordot",
       [](In in) {
         return tensordot(in[0], in[1], {2, 0}, {0, 1});
       },
       {f64({2, 3, 4}), f64({4, 2, 3})}},
  };
  for (const GradientCase& c : cases) check_gradients(c);
}

TEST_CASE("products: errors name the op and both tensors") {
  CHECK_THROWS_WITH_AS(
      dot(zeros({2}), zeros({3})),
      Contains("dot: a and b must be [n], of one length (a: f32[2]@cpu, b: f32[3]@cpu)"),
      ShapeError);
  CHECK_THROWS_AS(dot(zeros({2, 2}), zeros({2, 2})), ShapeError);
  CHECK_THROWS_AS(outer(zeros({2, 2}), zeros({2})), ShapeError);
  CHECK_THROWS_AS(dot(zeros({2}), zeros({2}, {.dtype = kF64})), DTypeError);
}
