// The models of the example programs, traced: each has its model's bits. The programs are compiled
// into this test as they are; their includes stand here, so that each fits into a namespace.
#include <doctest/doctest.h>
#include <lathe/lathe.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <limits>
#include <numbers>
#include <random>
#include <string>

// A program's main() gets another name, since it is not to run here.
#define main example_main
namespace quickstart {
#include "lathe/examples/quickstart.cpp"
}
namespace mingpt {
#include "lathe/examples/mingpt.cpp"
}
namespace vae {
#include "lathe/examples/vae.cpp"
}
namespace wgan {
#include "lathe/examples/wgan_gp.cpp"
}
namespace unet {
#include "lathe/examples/unet.cpp"
}
namespace burgers {
#include "lathe/examples/burgers.cpp"
}
namespace guide {
#include "lathe/examples/guide.cpp"
}
#undef main

using namespace lathe;

namespace {

using Function = std::function<Tensors(const Tensors&)>;

/// The trace of `f`, and `f` compiled, against f itself, for two batches.
void check(const Function& f, nn::Module& model, const Tensor& x, const Tensor& other) {
  const NoGrad off;
  model.eval();
  const jit::Graph graph = jit::trace(f, {x}, {.module = &model});
  const jit::CompiledFunction compiled = jit::compile(f, &model);
  for (const Tensor& t : {x, other}) {
    const Tensors expected = f({t}), traced = graph.run({t}), fused = compiled({t});
    REQUIRE(traced.size() == expected.size());
    for (size_t i = 0; i < expected.size(); ++i) {
      CHECK(equal(traced[i], expected[i]));
      CHECK(equal(fused[i], expected[i]));
    }
  }
  CHECK(compiled.explain().find("trace:") == std::string::npos);
}

void check_model(nn::Module& model, const Tensor& x, const Tensor& other) {
  check([&](const Tensors& t) { return Tensors{model(t[0])}; }, model, x, other);
}

}  // namespace

TEST_CASE("graph: the models of the example programs have their bits") {
  manual_seed(9);
  quickstart::Net net;
  check_model(net, randn({2, 3, 32, 32}), randn({3, 3, 32, 32}));
  mingpt::GPT gpt({.characters = 13, .context = 12});
  check_model(gpt, randint(0, 13, {2, 12}), randint(0, 13, {5, 12}));
  wgan::Network critic(2, 1);
  check_model(critic, randn({4, 2}), randn({300, 2}));
  unet::UNet segments;
  check_model(segments, randn({2, 1, 32, 32}), randn({3, 1, 32, 32}));
  burgers::Network solution;
  check_model(solution, randn({3, 2}), randn({100, 2}));
  guide::Classifier classifier;
  check_model(classifier, randn({2, 3, 16, 16}), randn({3, 3, 16, 16}));
}

TEST_CASE("graph: what a VAE computes without noise, and a loss, have their bits") {
  manual_seed(10);
  vae::VAE model;
  const Function code = [&](const Tensors& t) {
    const Tensor h = relu(model.encode(t[0])), mu = model.mean(h), lv = model.log_variance(h);
    return Tensors{model.decoded(mu), 0.5 * (mu.square() + lv.exp() - 1 - lv).sum()};
  };
  check(code, model, rand({2, vae::kPixels}), rand({700, vae::kPixels}));
  // The noise itself is refused, and named.
  const Function loss = [&](const Tensors& t) { return Tensors{model.loss(t[0]).image}; };
  CHECK_THROWS_AS(jit::trace(loss, {rand({2, vae::kPixels})}, {.module = &model}), jit::TraceError);
}
