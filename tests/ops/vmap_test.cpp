// vmap against calls on whole batches, and per-sample gradients against one backward per sample.
#include "lathe/ops/vmap.h"

#include "compare.h"
#include "lathe/autograd/engine.h"
#include "lathe/autograd/functional.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/reduce.h"

using namespace lathe;
using namespace lathe::test;

namespace {

using In = const Tensors&;

}  // namespace

TEST_CASE("vmap: equals the batched op, along any dimensions") {
  manual_seed(1);
  const Tensor a = randn({5, 2, 3}, kF64), b = randn({5, 3, 4}, kF64);
  const auto product = [](In in) { return matmul(in[0], in[1]); };
  const Tensor want = matmul(a, b);
  CHECK(difference(vmap(product, {a, b})[0], want, 1e-12) == "");
  CHECK(difference(vmap(product, {a.permute({1, 2, 0}), b}, {.in_dims = {-1, 0}})[0], want,
                   1e-12) == "");
  CHECK(difference(vmap(product, {a, b[0]}, {.in_dims = {0, VmapOptions::kWhole}})[0],
                   matmul(a, b[0]), 1e-12) == "");
  CHECK(difference(vmap(product, {a, b}, {.out_dims = {2}})[0], want.permute({1, 2, 0}), 1e-12) ==
        "");
  const Tensors two = vmap([](In in) { return Tensors{in[0].sum(), in[0] * 2}; }, {a});
  CHECK(difference(two[0], a.sum({1, 2}), 1e-12) == "");
  CHECK(difference(two[1], a * 2, 0) == "");
  const auto rows = [](In in) { return vmap([](In row) { return row[0].sum(); }, in)[0]; };
  CHECK(difference(vmap(rows, {a})[0], a.sum({2}), 1e-12) == "");
}

TEST_CASE("vmap: gradients per sample, Jacobians per sample, and gradients through it") {
  const Tensor w = randn({3}, kF64).requires_grad_(), x = randn({4, 3}, kF64);
  const auto loss = [&](In in) { return (w * in[0]).sum().square(); };
  const Tensor each = vmap([&](In in) { return grad({loss(in)}, {w})[0]; }, {x})[0];
  for (int64_t n = 0; n < 4; ++n) {
    CHECK(difference(each[n], grad({loss({x[n]})}, {w})[0], 1e-12) == "");
  }
  const Tensor jacobians =
      vmap([](In in) { return jacobian([](In t) { return t[0] * t[0]; }, in)[0][0]; }, {x})[0];
  CHECK(jacobians.shape() == Shape{4, 3, 3});
  check_gradients(
      {"vmap", [](In in) { return vmap([](In t) { return t[0].exp(); }, in)[0]; }, {x.detach()}});
}

TEST_CASE("vmap: bad calls are refused") {
  const auto f = [](In in) { return in[0]; };
  const Tensor x = zeros({2, 3});
  CHECK_THROWS_AS(vmap(f, {}), ValueError);
  CHECK_THROWS_AS(vmap(f, {x}, {.in_dims = {VmapOptions::kWhole}}), ValueError);
  CHECK_THROWS_AS(vmap(f, {x}, {.in_dims = {0, 0}}), ValueError);
  CHECK_THROWS_AS(vmap(f, {x}, {.out_dims = {0, 0}}), ValueError);
  CHECK_THROWS_AS(vmap(f, {x}, {.in_dims = {2}}), IndexError);
  CHECK_THROWS_AS(vmap(f, {zeros({})}), ShapeError);
  CHECK_THROWS_AS(vmap(f, {zeros({0, 3})}), ValueError);
  CHECK_THROWS_AS(vmap(f, {x, zeros({3})}), ShapeError);
  CHECK_THROWS_AS(vmap([](In) { return Tensors{}; }, {x}), ValueError);
  int calls = 0;
  CHECK_THROWS_AS(vmap(
                      [&](In in) {
                        return ++calls == 1 ? Tensors{in[0]} : Tensors{in[0], in[0]};
                      },
                      {x}),
                  ValueError);
}
