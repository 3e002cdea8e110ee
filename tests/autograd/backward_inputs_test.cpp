// backward() with inputs: the leaves that it may change.
#include <doctest/doctest.h>

#include <vector>

#include "lathe/autograd/engine.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/reduce.h"
#include "lathe/tests/autograd/leaf.h"

using namespace lathe;
using doctest::Contains;
using lathe::test::Floats, lathe::test::leaf, lathe::test::values;

TEST_CASE("backward: with inputs, only these leaves accumulate") {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4}), unused = leaf({5});
  int calls = 0;
  b.register_hook([&](const Tensor&) {
    ++calls;
    return Tensor();
  });
  const Tensor h = a * b, y = h.sum();
  h.retain_grad();
  y.backward({.retain_graph = true, .inputs = {a, unused}});
  CHECK(values(a.grad()) == Floats{3, 4});
  CHECK_FALSE(b.grad().defined());
  CHECK_FALSE(unused.grad().defined());
  CHECK(calls == 0);
  CHECK(values(h.grad()) == Floats{1, 1});  // asked for by itself
  y.backward({.retain_graph = true, .inputs = {a}});
  y.backward({.inputs = {b}});
  CHECK(values(a.grad()) == Floats{6, 8});
  CHECK(values(b.grad()) == Floats{1, 2});
  CHECK(calls == 1);

  const Tensor z = (a * 2).sum();
  CHECK_THROWS_WITH_AS(z.backward({.inputs = {a, h}}), Contains("no leaf that requires grad"),
                       StateError);
  CHECK_THROWS_AS(z.backward({.inputs = {tensor({1.f})}}), StateError);
  CHECK_THROWS_AS(z.backward({.inputs = {Tensor()}}), StateError);
  CHECK(values(a.grad()) == Floats{6, 8});
  z.backward();  // nothing was used up
  CHECK(values(a.grad()) == Floats{8, 10});
}
