// What tiny's tape refuses instead of computing a wrong gradient, and how it adds up.
#include <doctest/doctest.h>

#include "../../tiny/net.h"
#include "../../tiny/sgd.h"

namespace tiny {
namespace {

TEST_CASE("tiny: gradients of several paths and several passes add up") {
  const Tensor x = parameter({{2}, {1, 2}});
  for (int pass = 1; pass <= 2; ++pass) {
    backward(sum(x * x + x + x));
    CHECK(grad(x).data()[0] == pass * 4);
    CHECK(grad(x).data()[1] == pass * 6);
  }
}

TEST_CASE("tiny: the example in tape.h has these numbers, also by differences") {
  const auto f = [](const Tensor& w) {
    const Tensor a = w * w;
    return a * (a + w);
  };
  const Tensor w = parameter(Tensor({}, {3}));
  const Tensor loss = f(w);
  backward(loss);
  CHECK(loss.item() == 108);
  CHECK(grad(w).item() == 135);
  const double above = f(Tensor({}, {3 + 1e-5})).item();
  const double below = f(Tensor({}, {3 - 1e-5})).item();
  CHECK((above - below) / 2e-5 == doctest::Approx(135).epsilon(1e-8));
}

TEST_CASE("tiny: an op waits for all that used its output, the newest first") {
  const Tensor x = parameter({{2}, {1, 2}});
  const Tensor square = x * x;
  backward(sum(square * square + square));  // x^4 + x^2
  CHECK(grad(x).data()[0] == 6);
  CHECK(grad(x).data()[1] == 36);
}

TEST_CASE("tiny: a saved tensor that was written in place is an error, also through a view") {
  Tensor x({2, 2}, {1, 2, 3, 4});
  const Tensor w = parameter({{2, 2}, {1, 1, 1, 1}});
  const Tensor loss = sum(x * w);
  Tensor row = slice(x, 0, 1, 2);
  copy_(row, Tensor({1, 2}, {9, 9}));
  CHECK(x.data()[3] == 9);
  CHECK_THROWS_AS(backward(loss), StateError);
  CHECK(!grad(w).defined());
}

TEST_CASE("tiny: relu's input may be overwritten, since it saves its output") {
  const Tensor w = parameter({{2}, {-1, 3}});
  Tensor x = detach(w) * Tensor({}, {1});
  const Tensor y = relu(x + w);
  copy_(x, Tensor({2}));
  backward(sum(y));
  CHECK(grad(w).data()[0] == 0);
  CHECK(grad(w).data()[1] == 1);
}

TEST_CASE("tiny: writing in place is refused where it would be wrong") {
  Tensor w = parameter({{2}, {1, 2}});
  CHECK_THROWS_AS(copy_(w, Tensor({2})), StateError);
  Tensor repeated = expand(Tensor({1}), {3});
  CHECK_THROWS_AS(copy_(repeated, Tensor({3})), ValueError);
  const NoGrad off;
  copy_(w, Tensor({2}, {5, 6}));
  CHECK(w.data()[1] == 6);
}

TEST_CASE("tiny: a tape runs backwards once") {
  const Tensor x = parameter({{1}, {3}});
  const Tensor loss = sum(x * x);
  backward(loss);
  CHECK_THROWS_AS(backward(loss), StateError);
  CHECK_THROWS_AS(backward(x * Tensor({2})), ShapeError);
  CHECK_THROWS_AS(backward(Tensor({}, {1})), StateError);
  const NoGrad off;
  CHECK(!requires_grad(x * x));
}

TEST_CASE("tiny: what no gradient needs is free during the forward pass") {
  const size_t before = default_pool().stats().used_bytes;
  const Tensor x = parameter(Tensor({1000}));
  Tensor y = x;
  for (int i = 0; i < 10; ++i) y = y + x;  // a sum saves nothing
  CHECK(default_pool().stats().used_bytes - before <= 3 * 8192);
  backward(sum(y));
  CHECK(grad(x).data()[0] == 11);
}

TEST_CASE("tiny: SGD leaves a parameter without a gradient alone, and refuses wrong options") {
  Tensor a = parameter({{1}, {1}}), b = parameter({{1}, {1}});
  Sgd sgd({a, b}, {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.5});
  backward(sum(a));
  sgd.step();
  CHECK(a.data()[0] == doctest::Approx(1 - 0.1 * 1.5));
  CHECK(b.data()[0] == 1);
  CHECK_THROWS_AS(Sgd({a}, {.lr = -1}), ValueError);
  CHECK_THROWS_AS(Sgd({Tensor({1})}, {}), StateError);
}

}  // namespace
}  // namespace tiny
