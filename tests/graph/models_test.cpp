// A traced model gives the bits of the model itself, for the traced batch and for others, and
// after a way through text.
#include "lathe/nn/models.h"

#include <doctest/doctest.h>

#include <string>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/compile.h"
#include "lathe/graph/trace.h"
#include "lathe/nn/attention.h"
#include "lathe/nn/mlp.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"

using namespace lathe;

namespace {

/// Statistics that are not those of a new model, so that no normalisation is the identity; and a
/// Vision Transformer's last layer, which is zero in a new one.
void move_away_from_new(nn::Module& model) {
  for (auto& [name, t] : model.named_buffers()) {
    if (name.ends_with("running_mean")) t.normal_(0, 0.1);
    if (name.ends_with("running_var")) t.uniform_(0.5, 1.5);
  }
  for (auto& [name, t] : model.named_parameters()) {
    if (name.ends_with("head.weight")) t.normal_(0, 0.1);
  }
}

void check_traced(nn::Module& model, const Tensor& x, const Tensor& other) {
  const NoGrad off;
  model.eval();
  move_away_from_new(model);
  const jit::Graph graph = jit::trace(model, x);
  CHECK(model(x).abs().max().item<double>() > 0);
  CHECK(equal(graph(x), model(x)));
  CHECK(equal(graph(other), model(other)));
  const auto in_half = [&](auto&& call) {
    const Autocast half(kCPU, kBF16);
    return call();
  };
  const jit::Graph half = in_half([&] { return jit::trace(model, x); });
  CHECK(equal(half(other), in_half([&] { return model(other); })));

  const auto f = [&](const Tensors& t) { return Tensors{model(t[0])}; };
  const jit::CompiledFunction compiled = jit::compile(f, &model);
  CHECK(equal(compiled({x})[0], model(x)));
  CHECK(compiled.explain().find("trace: ") == std::string::npos);  // it is a graph

  jit::Graph read = jit::parse(graph.text());
  CHECK(read.text() == graph.text());
  read.bind(graph.state());
  CHECK(equal(read(other), model(other)));
}

}  // namespace

TEST_CASE("graph: a traced model has the model's bits") {
  struct Case {
    const char* model;
    int64_t image_size;
  };
  const Case cases[] = {
      {"resnet8", 16}, {"resnet18", 32}, {"mobilenet_v2", 32}, {"efficientnet_b0", 32}};
  for (const Case& c : cases) {
    CAPTURE(c.model);
    manual_seed(1);
    const auto model = nn::make_model(c.model, {.classes = 7, .image_size = c.image_size});
    check_traced(*model, randn({2, 3, c.image_size, c.image_size}),
                 randn({3, 3, c.image_size, c.image_size}));
  }
}

TEST_CASE("graph: blocks of the larger models have their bits") {
  manual_seed(7);
  nn::ConvNeXtBlock next(8, 0.5, 0.2);
  check_traced(next, randn({2, 8, 9, 9}), randn({3, 8, 9, 9}));
  nn::Bottleneck bottleneck(8, 4, 16, 2, true);
  check_traced(bottleneck, randn({2, 8, 9, 9}), randn({3, 8, 9, 9}));
  nn::VisionTransformer vit({.patch_size = 8, .layers = 2, .heads = 2, .hidden = 16, .mlp = 32},
                            {.classes = 5, .image_size = 16});
  check_traced(vit, randn({2, 3, 16, 16}), randn({3, 3, 16, 16}));
}

TEST_CASE("graph: an MLP and attention") {
  manual_seed(2);
  nn::MLP mlp(4, {8, 8, 3}, {.activation = Activation::kGelu});
  check_traced(mlp, randn({2, 4}), randn({5, 4}));

  struct Attended : nn::Module {
    nn::MultiheadAttention attention{*this, "attention", 8, 2};
    Tensor forward(const Tensor& x) override { return attention(x); }
  };
  Attended attended;
  check_traced(attended, randn({2, 3, 8}), randn({4, 3, 8}));
}

TEST_CASE("graph: gradients flow through a graph") {
  manual_seed(3);
  nn::MLP mlp(4, {8, 3});
  const Tensor x = randn({2, 4});
  const jit::Graph graph = jit::trace(mlp, x);
  mlp(x).square().sum().backward();
  Tensors expected;
  for (const Tensor& p : mlp.parameters()) expected.push_back(p.grad());
  mlp.zero_grad();
  graph(x).square().sum().backward();
  for (size_t i = 0; i < expected.size(); ++i) {
    CHECK(equal(mlp.parameters()[i].grad(), expected[i]));
  }
}
