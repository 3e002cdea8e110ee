// Writes in place and what they change: leaves, saved tensors, views and their history.
#include <doctest/doctest.h>

#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/join.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"
#include "lathe/tests/autograd/leaf.h"

using namespace lathe;
using doctest::Contains;
using lathe::test::Floats, lathe::test::leaf, lathe::test::values;

TEST_CASE("in place: a leaf that requires grad, or a view of one, only under NoGrad") {
  const Tensor x = leaf({1, 2});
  CHECK_THROWS_WITH_AS(x.add_(1.0), Contains("only under NoGrad"), StateError);
  CHECK_THROWS_AS(x[0].zero_(), StateError);
  CHECK(values(x) == Floats{1, 2});
  CHECK(x.version() == 0);
  const NoGrad off;
  x[1].add_(5.0);
  CHECK(values(x) == Floats{1, 7});
}

TEST_CASE("in place: a leaf may itself be a view of a tensor without a gradient") {
  const Tensor base = tensor({1.f, 2.f, 3.f, 4.f});
  const Tensor x = base.reshape({2, 2}).requires_grad_();
  CHECK_THROWS_WITH_AS(x[0].mul_(3.0), Contains("a view of a leaf that requires grad"), StateError);
  CHECK_THROWS_AS(x.reshape({4})[0].copy_(leaf({7})), StateError);
  {
    const NoGrad off;
    x[0].mul_(3.0);
  }
  (x[1] * x.flatten().slice(0, 0, 2)).sum().backward();
  CHECK(values(x.grad()) == Floats{3, 4, 3, 6});
  base.mul_(2.0);  // has no gradient itself: as any tensor of the same memory
  CHECK(values(x) == Floats{6, 12, 6, 8});
}

TEST_CASE("in place: changing a saved tensor is an error at backward, not a wrong number") {
  const Tensor x = leaf({1, 2});
  Tensor y = x * 2;
  const Tensor z = y * y;  // saves y
  y.add_(1.0);
  CHECK_THROWS_WITH_AS(
      z.sum().backward(),
      Contains("mul saved was modified by an in-place operation: version 1, expected 0"),
      StateError);
  Tensor s = x + 1.0;
  const Tensor t = s + s;  // saves nothing: changing s afterwards is legal
  s.mul_(100.0);
  t.sum().backward();
  CHECK(values(x.grad()) == Floats{2, 2});
  Tensor e = exp(x);
  const Tensor w = e.sum();
  e.detach().zero_();  // a view counts: storage and version are shared
  CHECK_THROWS_AS(w.backward(), StateError);
}

TEST_CASE("in place: expanded memory cannot be written") {
  const Tensor x = zeros({3, 1}).expand({3, 4});
  CHECK_THROWS_WITH_AS(x.add_(1.0), Contains("share memory"), ValueError);
}

TEST_CASE("NoGrad: a view of a tensor that was written before is a constant") {
  Tensor y = leaf({1, 2}) * 2;
  y.add_(1.0);
  Tensor v;
  {
    const NoGrad off;
    v = y[0];
  }
  CHECK_FALSE(v.requires_grad());
}

TEST_CASE("in place: a view behind another input gets its new history before its consumer") {
  // Whichever input comes first, and of whichever op: a node is newer than what it depends on.
  const auto twice = [](Tensor (*use)(const Tensor& a, const Tensor& v), bool backward) {
    const Tensor x = leaf({1, 2, 3}), a = leaf({1, 1});
    const Tensor base = x * 1.0;
    const Tensor v = base.slice(0, 0, 2);
    base.mul_(2.0);
    const Tensor y = (use(a, v) + use(a, v)).sum();
    if (!backward) return values(grad({y}, {v}, {.retain_graph = true})[0]);
    y.backward();
    return values(x.grad());
  };
  using Use = Tensor (*)(const Tensor& a, const Tensor& v);
  const Use uses[] = {
      [](const Tensor& a, const Tensor& v) { return add(a, v); },
      [](const Tensor& a, const Tensor& v) { return add(v, a); },
      [](const Tensor& a, const Tensor& v) { return mul(a, v); },
      [](const Tensor& a, const Tensor& v) { return where(lt(a, 0.0), a, v); },
      [](const Tensor& a, const Tensor& v) {
        return cat({a, v});
      },
      [](const Tensor& a, const Tensor& v) {
        const Tensor written = a * 1.0;
        return written.add_(v);
      },
  };
  for (const Use use : uses) {
    CHECK(twice(use, false) == Floats{2, 2});
    CHECK(twice(use, true) == Floats{4, 4, 0});
  }
}

TEST_CASE("in place: an overlapping source is read before it is overwritten") {
  const Tensor x = leaf({1, 2, 3, 4});
  const Tensor y = x * 1.0;
  y.slice(0, 1, 4).copy_(y.slice(0, 0, 3));
  CHECK(values(y) == Floats{1, 1, 2, 3});
  y.sum().backward();
  CHECK(values(x.grad()) == Floats{2, 1, 1, 0});
}

TEST_CASE("in place: a view that was copied from another view has that one's old history") {
  const Tensor x = leaf({1, 2, 3, 4});
  const Tensor y = x * 1.0;
  const Tensor target = y.slice(0, 1, 4);
  target.copy_(y.slice(0, 0, 3));
  CHECK(values(target) == Floats{1, 2, 3});
  target.sum().backward();
  CHECK(values(x.grad()) == Floats{1, 1, 1, 0});
}

TEST_CASE("in place: an older view sees what was written through another") {
  const Tensor a = leaf({1, 2});
  const Tensor b = a * 1.0;
  const Tensor written = b.select(0, 0), older = b.select(0, 0);
  written.mul_(3.0);
  older.sum().backward();
  CHECK(values(a.grad()) == Floats{3, 0});
}

TEST_CASE("in place: a view that was written is a view of what its base is now") {
  const Tensor x = leaf({1, 2, 3});
  const Tensor base = x * 1.0;
  const Tensor view = base.slice(0, 0, 2), other = base.slice(0, 0, 2);
  view.mul_(5.0);
  CHECK(values(grad({view.sum()}, {base}, {.retain_graph = true})[0]) == Floats{1, 1, 0});
  CHECK(values(grad({other.sum()}, {base}, {.retain_graph = true})[0]) == Floats{1, 1, 0});
  CHECK(values(grad({view.sum()}, {x})[0]) == Floats{5, 5, 0});
}

TEST_CASE("in place: a write through a view made under NoGrad changes the base's gradient") {
  // Whatever is written, and however: not recorded, it would leave a gradient of the old values.
  using Write = void (*)(const Tensor& view);
  const Write writes[] = {
      [](const Tensor& v) { v.zero_(); },           [](const Tensor& v) { v.mul_(0.0); },
      [](const Tensor& v) { v.copy_(zeros({2})); }, [](const Tensor& v) { relu_(neg_(v)); },
      [](const Tensor& v) { v.clamp_(0.0, 0.0); },
  };
  for (const Write write : writes) {
    const Tensor x = leaf({1, 2, 3});
    const Tensor y = x * 1.0;
    Tensor view;
    {
      const NoGrad off;
      view = y.slice(0, 0, 2);
    }
    write(view);
    CHECK(view.requires_grad());  // as every view of y
    y.sum().backward();
    CHECK(values(x.grad()) == Floats{0, 0, 1});
  }
}
