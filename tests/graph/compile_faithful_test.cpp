// compile: all that a call of the function does besides its results stays as it is: gradients,
// writes, random numbers, errors.
#include <doctest/doctest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/error.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/compile.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/losses/losses.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

using namespace lathe;

namespace {

using Function = std::function<Tensors(const Tensors&)>;

/// What a call of f and its backward pass leave behind: results, and the gradients of x and w.
Tensors left_behind(const Function& f, const Tensor& w) {
  const Tensor x = arange(1, 7, 1, {.dtype = kF32}).reshape({3, 2}).requires_grad_();
  w.set_grad({});
  Tensors left = f({x});
  Tensor total;
  for (const Tensor& y : left) {
    if (y.requires_grad()) total = total.defined() ? total + y.sum() : y.sum();
  }
  if (total.defined()) total.backward();
  left.push_back(x.grad());
  left.push_back(w.grad());
  return left;
}

/// A function with a name for messages.
struct Named {
  std::string name;
  Function f;
};

void check_same(const Named& c, const Tensor& w) {
  CAPTURE(c.name);
  const jit::CompiledFunction compiled = jit::compile(c.f);
  const Tensors expected = left_behind(c.f, w);
  for (int call = 0; call < 2; ++call) {
    const Tensors got = left_behind([&](const Tensors& t) { return compiled(t); }, w);
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); ++i) {
      CAPTURE(i);
      REQUIRE(got[i].defined() == expected[i].defined());
      if (!got[i].defined()) continue;
      CHECK(equal(got[i], expected[i]));
      CHECK(got[i].requires_grad() == expected[i].requires_grad());
    }
  }
}

/// Is f run as a graph, and not called itself?
bool is_graph(const jit::CompiledFunction& f) {
  return f.explain().find("\n  ") != std::string::npos;
}

}  // namespace

TEST_CASE("compile: what the function keeps gradients from gets none") {
  const Tensor w = full({2}, 3.0).requires_grad_();
  const Named cases[] = {
      {"detach", [](const Tensors& t) { return Tensors{t[0] * t[0].detach()}; }},
      {"a view of detach",
       [](const Tensors& t) {
         return Tensors{t[0] + t[0].detach().view({3, 2}).exp()};
       }},
      {"detach of a result",
       [](const Tensors& t) {
         const Tensor y = t[0] * 2;
         return Tensors{y * y.detach()};
       }},
      {"detach is returned",
       [](const Tensors& t) {
         const Tensor y = t[0] * 2;
         return Tensors{y, y.detach()};
       }},
      {"detach alone", [](const Tensors& t) { return Tensors{t[0].detach() * 2}; }},
      {"detach of a tensor from elsewhere",
       [&](const Tensors& t) { return Tensors{t[0] * w.detach() + w}; }},
      {"NoGrad",
       [](const Tensors& t) {
         Tensor factor;
         {
           const NoGrad off;
           factor = t[0].exp();
         }
         return Tensors{t[0] * factor};
       }},
      {"NoGrad around all",
       [](const Tensors& t) {
         const NoGrad off;
         return Tensors{t[0] * 2};
       }},
      {"NoGrad and EnableGrad",
       [](const Tensors& t) {
         const NoGrad off;
         const Tensor factor = t[0].exp();
         const EnableGrad on;
         return Tensors{t[0] * factor};
       }},
  };
  for (const Named& c : cases) check_same(c, w);
}

TEST_CASE("compile: detach() and NoGrad are no hindrance where no gradient would pass") {
  const Tensor w = zeros({2}).requires_grad_();
  const Function cases[] = {
      [](const Tensors& t) { return Tensors{huber_loss(t[0], t[0] * 0.5)}; },
      [](const Tensors& t) { return Tensors{where(t[0].detach().abs() < 3, t[0] * 2, t[0])}; },
      [](const Tensors& t) {
        Tensor large;
        {
          const NoGrad off;
          large = t[0] > t[0].mean();
        }
        return Tensors{where(large, t[0] * 2, t[0])};
      },
  };
  for (const Function& f : cases) {
    check_same({"", f}, w);
    const jit::CompiledFunction compiled = jit::compile(f);
    compiled({randn({4, 3})});
    CHECK(is_graph(compiled));
  }
}

TEST_CASE("compile: a function that writes its input does so once") {
  const Function f = [](const Tensors& t) {
    t[0].add_(1);
    return Tensors{t[0] * 2};
  };
  const jit::CompiledFunction compiled = jit::compile(f);
  for (int64_t rows : {4, 4, 1, 9}) {
    const Tensor x = zeros({rows, 1}), wide = zeros({rows, 3}), part = wide.slice(1, 0, 2);
    CHECK(equal(compiled({x})[0], full({rows, 1}, 2.0)));
    CHECK(equal(x, ones({rows, 1})));
    CHECK(equal(compiled({part})[0], full({rows, 2}, 2.0)));
    CHECK(equal(part, ones({rows, 2})));
    CHECK(equal(wide.slice(1, 2, 3), zeros({rows, 1})));
  }
  const Tensor leaf = zeros({4, 1}).requires_grad_();
  CHECK_THROWS_AS(jit::compile(f)({leaf}), StateError);
  CHECK(equal(leaf, zeros({4, 1})));
}

TEST_CASE("compile: tensors that the function makes are new in every call") {
  const Named cases[] = {
      {"zeros",
       [](const Tensors& t) {
         return Tensors{t[0] * 2, zeros({3})};
       }},
      {"a view",
       [](const Tensors& t) {
         return Tensors{t[0] * 2, select(zeros({2, 3}), 0, 1)};
       }},
  };
  for (const Named& c : cases) {
    CAPTURE(c.name);
    const jit::CompiledFunction f = jit::compile(c.f);
    for (int call = 0; call < 3; ++call) {
      const Tensor made = f({ones({5, 3})})[1];
      CHECK(equal(made, zeros({3})));
      made.add_(7);
    }
  }
}

TEST_CASE("compile: a tensor from elsewhere that is returned is that tensor") {
  const Tensor w = ones({3});
  const jit::CompiledFunction f = jit::compile([&](const Tensors& t) {
    return Tensors{t[0] + w, w};
  });
  for (int call = 0; call < 2; ++call) CHECK(f({ones({5, 3})})[1].is_same(w));
}

TEST_CASE("compile: random numbers and batch statistics are those of the function") {
  const Function drop = [](const Tensors& t) { return Tensors{dropout(t[0], {.p = 0.5})}; };
  const jit::CompiledFunction compiled = jit::compile(drop);
  const Tensor x = ones({64});
  manual_seed(5);
  const Tensor first = drop({x})[0], second = drop({x})[0];
  manual_seed(5);
  CHECK(equal(compiled({x})[0], first));
  CHECK(equal(compiled({x})[0], second));

  nn::BatchNorm1d bn(3), twin(3);
  const jit::CompiledFunction normed =
      jit::compile([&](const Tensors& t) { return Tensors{bn(t[0]) * 2}; }, &bn);
  for (int call = 1; call <= 2; ++call) {
    const Tensor batch = randn({16, 3}) + 5;
    CHECK(equal(normed({batch})[0], twin(batch) * 2));
    CHECK(equal(bn.running_mean, twin.running_mean));
    CHECK(equal(bn.running_var, twin.running_var));
    CHECK(bn.num_batches_tracked.item<int64_t>() == call);
  }
}

TEST_CASE("compile: a function that only tracing cannot call is called itself") {
  const Tensor x = randn({8, 3}).requires_grad_();
  const Function penalty = [](const Tensors& t) {
    const Tensor y = (t[0] * t[0] * t[0]).sum();
    return Tensors{grad({y}, {t[0]}, {.create_graph = true})[0].square().sum()};
  };
  const jit::CompiledFunction f = jit::compile(penalty);
  for (int call = 0; call < 2; ++call) CHECK(equal(f({x})[0], penalty({x})[0]));
  CHECK(!is_graph(f));

  const Tensor w = ones({3});
  const jit::CompiledFunction none = jit::compile([&](const Tensors&) { return Tensors{w * 2}; });
  for (int call = 0; call < 2; ++call) CHECK(equal(none({})[0], full({3}, 2.0)));

  const jit::CompiledFunction four = jit::compile([](const Tensors& t) {
    if (t[0].dim(0) < 4) throw std::invalid_argument("a batch has 4 rows at least");
    return Tensors{t[0] * 2};
  });
  CHECK(equal(four({x.detach()})[0], x.detach() * 2));
  CHECK(is_graph(four));
  CHECK_THROWS_WITH_AS(four({ones({3, 3})}), "a batch has 4 rows at least", std::invalid_argument);
}

TEST_CASE("compile: an error of the function is not remembered") {
  bool fails = true;
  const jit::CompiledFunction f = jit::compile([&](const Tensors& t) {
    if (fails) throw std::runtime_error("not yet");
    return Tensors{t[0] * 2};
  });
  CHECK_THROWS_WITH_AS(f({ones({8, 3})}), "not yet", std::runtime_error);
  CHECK(f.explain().empty());
  fails = false;
  f({ones({8, 3})});
  CHECK(is_graph(f));
}

TEST_CASE("compile: one function calls another before either is traced") {
  const jit::CompiledFunction inner =
      jit::compile([](const Tensors& t) { return Tensors{t[0] * 2 + 1}; });
  const jit::CompiledFunction outer =
      jit::compile([&](const Tensors& t) { return Tensors{inner({t[0]})[0].exp()}; });
  const Tensor x = randn({8, 3});
  CHECK(equal(outer({x})[0], (x * 2 + 1).exp()));
  CHECK(outer.explain() == "f32[N,3] cpu 01\n  together: mul, add, exp\n");
  CHECK(equal(inner({x})[0], x * 2 + 1));
}

TEST_CASE("compile: backward passes of other threads do not notice a trace") {
  bool noticed = false;
  const jit::CompiledFunction f = jit::compile([&](const Tensors& t) {
    noticed |= profile::gradients_watched();
    return Tensors{t[0] * 2};
  });
  f({ones({8, 3})});
  CHECK(is_graph(f));
  CHECK(!noticed);
}
