// Passes that throw: no grad() has changed, whatever it was that failed; see engine.h.
#include <doctest/doctest.h>

#include <cmath>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/autograd/engine.h"
#include "lathe/autograd/record.h"
#include "lathe/core/log.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/tests/autograd/leaf.h"

using namespace lathe;
using doctest::Contains;
using lathe::test::Floats, lathe::test::leaf, lathe::test::values;

namespace {

/// y = x, with a gradient that throws.
Tensor broken(const Tensor& x) {
  const Tensor y = x.detach().clone();
  autograd::record("broken", y, {x}, [](const Tensor&, const autograd::Needs&) -> Tensors {
    throw std::runtime_error("broken closure");
  });
  return y;
}

}  // namespace

TEST_CASE("failure: a leaf's hook that throws leaves the leaves before it as they were") {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  a.set_grad(tensor({10.f, 20.f}));
  b.register_hook([](const Tensor&) -> Tensor { throw std::runtime_error("no"); });
  CHECK_THROWS_WITH((a * b).sum().backward(), Contains("no"));
  CHECK(values(a.grad()) == Floats{10, 20});
  CHECK_FALSE(b.grad().defined());
}

TEST_CASE("failure: a closure that throws leaves leaves and retained gradients as they were") {
  const Tensor x = leaf({1, 2}), w = leaf({5, 6});
  const Tensor y = broken(x) * w;
  y.retain_grad();
  const Tensor loss = (y * 2.0).sum();
  CHECK_THROWS_WITH(loss.backward(), Contains("broken closure"));
  CHECK_FALSE(y.grad().defined());
  CHECK_FALSE(w.grad().defined());
  // The ops that ran before the broken one are used up.
  CHECK_THROWS_WITH_AS(loss.backward(), Contains("freed by an earlier backward pass"), StateError);
  CHECK_FALSE(y.grad().defined());
}

TEST_CASE("failure: with retain_graph the pass can be repeated") {
  const Tensor x = leaf({1, 2});
  bool fails = true;
  const Tensor y = exp(x * 2.0);
  y.register_hook([&](const Tensor&) {
    if (fails) throw std::runtime_error("this time");
    return Tensor();
  });
  const Tensor loss = (y * 0.0 + x * 3.0).sum();
  CHECK_THROWS_WITH(loss.backward({.retain_graph = true}), Contains("this time"));
  CHECK_FALSE(x.grad().defined());
  fails = false;
  loss.backward();
  CHECK(values(x.grad()) == Floats{3, 3});
}

TEST_CASE("failure: memory that runs out anywhere in a pass changes no grad()") {
  constexpr int kEnough = 1000;
  for (const bool create_graph : {false, true}) {
    bool succeeded = false;
    for (int n = 1; n < kEnough && !succeeded; ++n) {
      CAPTURE(n);
      // One with a gradient to be added to, one with an expanded gradient, and two that are given
      // the same memory by add.
      const Tensor a = leaf({1, 2}), b = leaf({3, 4}), c = leaf({5, 6}), d = leaf({7, 8});
      a.set_grad(tensor({1.f, 1.f}));
      b.set_grad(ones({1}).expand({2}));
      const Tensor y = exp(a * b) + (c + d);
      y.retain_grad();
      const Tensor loss = (y * 2.0).sum();
      const auto everything = [&] {
        return std::vector<Floats>{values(a.grad()), values(b.grad()), values(c.grad()),
                                   values(d.grad()), values(y.grad())};
      };
      const auto before = everything();
      try {
        const ArmedFault fault(host_allocator().fault(), n);
        loss.backward({.create_graph = create_graph});
        succeeded = true;
      } catch (const OutOfMemoryError&) {
      }
      if (!succeeded) {
        REQUIRE(everything() == before);
        continue;
      }
      CHECK(n > 5);
      CHECK(values(c.grad()) == Floats{2, 2});
      CHECK_FALSE(c.grad().shares_storage(d.grad()));
      CHECK(values(y.grad()) == Floats{2, 2});
      // With create_graph the history of a gradient holds its leaf: a cycle, to be cut by hand.
      for (const Tensor& t : {a, b, c, d, y}) t.set_grad({});
    }
    CHECK(succeeded);
  }
}

TEST_CASE("backward: a loss that is NaN is warned about once, and walked all the same") {
  static int warnings = 0;  // of this process, however often the case runs
  const Tensor x = leaf({0.0F});
  const Tensor good = (x * 1.0).sum(), first = (x / 0.0).sum(), second = (x / 0.0).sum();
  const LogHandler before = set_log_handler([](LogLevel, std::string_view text) {
    if (text.find("the loss is NaN") != std::string_view::npos) ++warnings;
  });
  good.backward();
  const int of_good = warnings;
  first.backward();
  second.backward();
  set_log_handler(before);
  CHECK(of_good == 0);
  CHECK(warnings == 1);
  CHECK(std::isnan(first.item<float>()));
}
