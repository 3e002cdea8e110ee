// LeafListener: when a leaf's gradient is said to be complete, and what a listener may change.
#include "lathe/autograd/leaf_listener.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lathe/autograd/checkpoint.h"
#include "lathe/autograd/engine.h"
#include "lathe/core/format.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"

using namespace lathe;
using autograd::LeafListener;
using doctest::Contains;

namespace {

using Floats = std::vector<float>;
Floats values(const Tensor& t) { return t.to_vector<float>(); }
Tensor leaf(float value) { return tensor({value}).requires_grad_(); }

/// Writes down what it hears, "0=3" for a gradient of 3 of leaf 0, and what `note` adds.
class Recorder final : public LeafListener {
 public:
  explicit Recorder(Tensors leaves) : leaves_(std::move(leaves)) {
    for (size_t i = 0; i < leaves_.size(); ++i) autograd::listen(leaves_[i], *this, i);
  }
  ~Recorder() override {
    for (const Tensor& t : leaves_) autograd::stop_listening(t);
  }

  bool begin(const Pass& pass) override {
    std::vector<size_t> numbers = pass.leaves;
    std::ranges::sort(numbers);
    heard += "begin";
    for (const size_t n : numbers) heard += concat(" ", n);
    heard += concat(pass.all_known ? "" : " ...", pass.create_graph ? " graph; " : "; ");
    return listens;
  }
  bool complete(size_t number, const Tensor& gradient) override {
    heard += concat(number, "=", gradient.defined() ? concat(values(gradient)[0]) : "none", " ");
    if (takes && gradient.defined()) taken.push_back({leaves_[number], gradient * 10});
    return takes;
  }
  std::vector<NewGrad> end() override {
    heard += "end";
    LATHE_CHECK(StateError, !fails, "the listener refuses");
    return std::exchange(taken, {});
  }
  void failed(const char* reason) noexcept override { heard += std::string("failed: ") + reason; }

  std::string said() { return std::exchange(heard, ""); }

  std::string heard;
  bool listens = true, takes = false, fails = false;
  std::vector<NewGrad> taken;

 private:
  Tensors leaves_;
};

/// 2x, whose closure notes that it runs.
Tensor noted(Recorder& r, const char* name, const Tensor& x) {
  Tensor y = x * 2;
  if (!y.requires_grad()) return y;  // a checkpoint's first call
  y.register_hook([&r, name](const Tensor&) {
    r.heard += std::string("[") + name + "] ";
    return Tensor();
  });
  return y;
}

}  // namespace

TEST_CASE("leaf listener: a gradient is complete when the oldest op that uses the leaf has run") {
  const Tensor a = leaf(1), b = leaf(2), c = leaf(3), unused = leaf(4);
  Recorder r({a, b, c, unused});
  const auto loss = [&] {
    const Tensor h = noted(r, "1", a * b);  // a's oldest use
    const Tensor k = noted(r, "2", h * c);
    return noted(r, "3", k * a).sum();  // a's newest use comes first in the pass
  };
  loss().backward();
  CHECK(r.said() == "begin 0 1 2; [3] [2] 2=16 [1] 0=96 1=24 end");
  CHECK(values(a.grad()) == Floats{96});  // of 8aabc
  r.listens = false;
  loss().backward();
  CHECK(r.said() == "begin 0 1 2; [3] [2] [1] ");
  CHECK(values(a.grad()) == Floats{192});
  (void)grad({loss()}, {a, b});
  CHECK(r.said() == "[3] [2] [1] ");  // changes no grad()
}

TEST_CASE("leaf listener: what it takes is not added, and what it gives is grad()") {
  const Tensor a = leaf(1), b = leaf(2);
  Recorder r({a, b});
  r.takes = true;
  (a * b).sum().backward();
  CHECK(values(a.grad()) == Floats{20});
  const Tensor held = a.grad();
  const int64_t version = held.version();
  (a * b).sum().backward();
  CHECK(values(held) == Floats{20});
  CHECK(a.grad().is_same(held));
  CHECK(held.version() > version);
  r.takes = false;
  (a * b * 3).sum().backward();
  CHECK(values(held) == Floats{26});  // a listener that takes nothing changes nothing
  a.register_hook([](const Tensor& g) { return g * 100; });
  b.set_grad({});
  r.said();
  (a * b).sum().backward();
  CHECK(r.said().find("0=200 ") != std::string::npos);  // hooks have seen it
  CHECK(values(held) == Floats{226});                   // once
}

TEST_CASE("leaf listener: what a checkpoint leads to, however deep, is complete after it") {
  const Tensor a = leaf(1), b = leaf(2), c = leaf(3);
  Recorder r({a, b, c});
  bool again = true;
  const auto inner = [&](const Tensors& in) { return noted(r, "inner", in[0] * b); };
  const auto outer = [&](const Tensors& in) {
    const Tensor h = in[0] * c;
    return noted(r, "outer", again ? checkpoint(inner, {h}) : inner({h})) * a;
  };
  const auto loss = [&] {
    const Tensor h = noted(r, "first", a * 1);
    return noted(r, "last", (again ? checkpoint(outer, {h}) : outer({h})) * c).sum();
  };
  loss().backward();
  CHECK(r.said() == "begin 2 ...; [last] [outer] [inner] 1=144 2=192 [first] 0=576 end");
  const Floats grad_a = values(a.grad()), grad_c = values(c.grad());
  for (const Tensor& t : {a, b, c}) t.set_grad({});
  again = false;
  loss().backward();
  CHECK(r.said() == "begin 0 1 2; [last] [outer] [inner] 1=144 2=192 [first] 0=576 end");
  CHECK(values(a.grad()) == grad_a);
  CHECK(values(c.grad()) == grad_c);
}

TEST_CASE("leaf listener: leaves without a gradient, chosen leaves, and a leaf as the output") {
  const Tensor a = leaf(1), b = leaf(2);
  Recorder r({a, b});
  (a + (b * 2).detach() + b * 0).sum().backward({.inputs = {a}});
  CHECK(r.said() == "begin 0; 0=1 end");
  CHECK(!b.grad().defined());
  a.sum().backward({.create_graph = true});
  CHECK(r.said() == "begin 0 graph; 0=1 end");
  a.backward();
  CHECK(r.said() == "begin 0; 0=1 end");
  CHECK(values(a.grad()) == Floats{3});
  CHECK_THROWS_WITH_AS(autograd::listen(a, r, 5), Contains("has a listener already"), StateError);
  CHECK_THROWS_WITH_AS(autograd::listen(a * 2, r, 5), Contains("no leaf"), StateError);
}

TEST_CASE("leaf listener: a pass that fails is told, and changes no grad()") {
  const Tensor a = leaf(1), b = leaf(2);
  Recorder r({a, b});
  r.takes = true;
  (a * b).sum().backward();
  r.said();
  const Tensor h = a * 1;
  h.register_hook([](const Tensor&) -> Tensor { throw std::runtime_error("no more"); });
  CHECK_THROWS_WITH(((h * b).sum().backward()), "no more");
  CHECK(r.said() == "begin 0 1; 1=1 failed: no more");
  r.taken.clear();
  r.fails = true;
  CHECK_THROWS_AS((a * b).sum().backward(), StateError);
  CHECK(r.said().find("endfailed: ") != std::string::npos);
  CHECK(values(a.grad()) == Floats{20});
  CHECK(values(b.grad()) == Floats{10});
}

TEST_CASE("leaf listener: two of them in one pass, and one that goes") {
  const Tensor a = leaf(1), b = leaf(2);
  Recorder first({a});
  {
    Recorder second({b});
    (a * b).sum().backward();
    CHECK(second.said() == "begin 0; 0=1 end");
  }
  CHECK(first.said() == "begin 0; 0=2 end");
  (a * b).sum().backward();
  CHECK(values(b.grad()) == Floats{2});
}
