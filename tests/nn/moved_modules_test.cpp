// Modules that move: temporaries in containers, replaced heads, whole models; modules of other
// signatures, their hooks and summaries.
#include <doctest/doctest.h>

#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "lathe/nn/activation.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/conv.h"
#include "lathe/nn/dropout.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/module_of.h"
#include "lathe/nn/resnet.h"
#include "lathe/nn/summary.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/ops/unary.h"

using namespace lathe;
using Names = std::vector<std::string>;

namespace {

Names names(const nn::Module& module) {
  Names out;
  for (const auto& [name, p] : module.named_parameters()) out.push_back(name);
  return out;
}

bool same(const Tensor& a, const Tensor& b) { return a.to_vector<float>() == b.to_vector<float>(); }

struct Stage : nn::Module {
  explicit Stage(int64_t size) : fc(*this, "fc", size, size) {}
  nn::Linear fc;
  nn::BatchNorm1d bn{*this, "bn", fc.weight.dim(0)};
  Tensor forward(const Tensor& x) override { return bn(fc(x)); }
};

struct Net : nn::Module {
  explicit Net(int64_t size) : stage(size), head(*this, "head", size, 2) { adopt(stage, "stage"); }
  Stage stage;
  nn::Linear head;
  nn::Sequential tail{*this, "tail", {nn::ReLU(), nn::Dropout(0.0)}};
  Tensor forward(const Tensor& x) override { return tail(head(stage(x))); }
};

/// Two inputs, two outputs.
struct Cell : nn::ModuleOf<std::pair<Tensor, Tensor>(const Tensor& x, const Tensor& state)> {
  using ModuleOf::ModuleOf, ModuleOf::forward;
  nn::Linear in{*this, "in", 3, 4};
  nn::Linear back{*this, "back", 4, 4};
  std::pair<Tensor, Tensor> forward(const Tensor& x, const Tensor& state) override {
    const Tensor next = tanh(in(x) + back(state));
    return {next * 2, next};
  }
};

}  // namespace

TEST_CASE("moved modules: a Sequential of temporaries is the one made by add") {
  manual_seed(1);
  nn::Sequential written{nn::Conv2d(3, 4, {.kernel = 3, .bias = false}), nn::BatchNorm2d(4),
                         nn::ReLU(), nn::Flatten(), nn::Linear(16, 2)};
  manual_seed(1);
  nn::Sequential added;
  added.add<nn::Conv2d>(3, 4, nn::Conv2dOptions{.kernel = 3, .bias = false});
  added.add<nn::BatchNorm2d>(4);
  added.add<nn::ReLU>();
  added.add<nn::Flatten>();
  added.push_back(nn::Linear(16, 2));
  CHECK(names(written) == Names{"0.weight", "1.weight", "1.bias", "4.weight", "4.bias"});
  CHECK(names(written) == names(added));
  const Tensor x = randn({5, 3, 4, 4});
  CHECK(same(written(x), added(x)));  // the layers drew their values from left to right
  const auto& bn = dynamic_cast<nn::BatchNorm2d&>(written[1]);
  CHECK(written.state_dict()["1.running_mean"].shares_storage(bn.running_mean));
  CHECK(written[4].path() == "Sequential.4");
}

TEST_CASE("moved modules: a model that moves keeps its tree, and its parameters their places") {
  Net first(4);
  first.eval();
  const Tensor x = randn({3, 4});
  const Tensor want = first(x);
  const Names before = names(first);
  Net second = std::move(first);
  CHECK(names(second) == before);
  CHECK(names(first).empty());
  CHECK(!second.is_training());
  CHECK(same(second(x), want));
  CHECK(second.stage.fc.path() == "Net.stage.fc");
  for (const auto& [name, module] : second.named_modules()) {
    if (name == "stage.fc") CHECK(module == &second.stage.fc);
    if (name == "head") CHECK(module == &second.head);
  }

  const Tensor other = ones({4, 4});
  second.stage.fc.weight = other;  // the place is known where the layer is now
  CHECK(second.parameters()[2].is_same(other));
  CHECK(second.state_dict()["stage.fc.weight"].shares_storage(other));

  std::vector<Stage> stages;
  for (int i = 0; i < 5; ++i) stages.emplace_back(2);  // moves what is there, several times
  stages[1].fc.weight = zeros({2, 2});
  CHECK(stages[1].parameters()[0].is_same(stages[1].fc.weight));
}

TEST_CASE("moved modules: a head is replaced under its name") {
  nn::ResNet model = nn::resnet18({.classes = 10, .stem = nn::Stem::kCifar});
  const size_t count = model.parameters().size();
  model.fc = nn::Linear(512, 3);
  CHECK(model.parameters().size() == count);
  CHECK(model.state_dict()["fc.weight"].shape() == Shape{3, 512});
  CHECK(model.state_dict()["fc.weight"].shares_storage(model.fc.weight));
  CHECK(model.fc.path() == "ResNet.fc");
  model.fc = nn::Linear(512, 4, {.bias = false});
  CHECK(model.parameters().size() == count - 1);
  CHECK(!model.fc.bias.defined());
  CHECK(model(zeros({1, 3, 32, 32})).shape() == Shape{1, 4});

  Net net(4);
  net.stage = Stage(4);  // a module of modules
  CHECK(names(net) == Names{"head.weight", "head.bias", "stage.fc.weight", "stage.fc.bias",
                            "stage.bn.weight", "stage.bn.bias"});
  CHECK(net.stage.bn.path() == "Net.stage.bn");
  CHECK(net(randn({3, 4})).shape() == Shape{3, 2});
  Net source(4);
  const Tensor weight = source.stage.fc.weight;
  net.stage = std::move(source.stage);  // leaves its model
  CHECK(net.state_dict()["stage.fc.weight"].shares_storage(weight));
  CHECK(names(source) == Names{"head.weight", "head.bias"});
}

// Through a Module& only the base would move: the layer would go on with its old weights.
static_assert(!std::is_assignable_v<nn::Module&, nn::Linear>);
static_assert(!std::is_constructible_v<nn::Module, nn::Linear>);
// In parentheses the compiler would choose which layer draws its initial values first.
static_assert(!std::is_constructible_v<nn::Sequential, nn::Linear, nn::ReLU>);
static_assert(
    !std::is_constructible_v<nn::Sequential, nn::Module&, std::string, nn::Linear, nn::ReLU>);
static_assert(std::is_constructible_v<nn::Sequential, nn::Sequential>);

TEST_CASE("moved modules: an element is replaced in its place") {
  nn::Sequential net{nn::Linear(4, 3), nn::ReLU(), nn::Linear(3, 2)};
  nn::Linear& fresh = net.replace(0, nn::Linear(5, 3));
  CHECK(names(net) == Names{"0.weight", "0.bias", "2.weight", "2.bias"});
  CHECK(net.parameters()[0].is_same(fresh.weight));
  CHECK(fresh.path() == "Sequential.0");
  CHECK(net(zeros({1, 5})).shape() == Shape{1, 2});
  net.replace(0, std::move(fresh));  // itself
  CHECK(names(net) == Names{"0.weight", "0.bias", "2.weight", "2.bias"});
  CHECK(net(zeros({1, 5})).shape() == Shape{1, 2});
  CHECK_THROWS_AS(net.replace(3, nn::ReLU()), IndexError);
}

TEST_CASE("moved modules: a layer that moves into a container leaves its parent, or stays whole") {
  Net net(4);
  nn::Sequential seq;
  seq.push_back(std::move(net.head));
  CHECK(names(seq) == Names{"0.weight", "0.bias"});
  CHECK(names(net) ==
        Names{"stage.fc.weight", "stage.fc.bias", "stage.bn.weight", "stage.bn.bias"});

  nn::Linear kept(2, 2);
  CHECK_THROWS_AS(seq.add_named<nn::Linear>("0", std::move(kept)), ValueError);
  CHECK(kept.weight.defined());
  CHECK(kept.parameters().size() == 2);
  seq.add_named<nn::ReLU>("2");
  CHECK_THROWS_AS(seq.push_back(std::move(kept)), ValueError);  // "2" is taken
  CHECK(kept.parameters().size() == 2);
}

TEST_CASE(
    "moved modules: assigning a whole model; layers that may be missing; several parameters") {
  struct Optional : nn::Module {
    std::optional<nn::Linear> extra;
    std::vector<nn::Parameter> scales;
    Optional() {
      for (int i = 0; i < 3; ++i) scales.push_back(parameter("s" + std::to_string(i), ones({1})));
    }
    void add_extra() { adopt(extra.emplace(2, 2), "extra"); }
  } a, b;
  b.add_extra();
  a = std::move(b);
  CHECK(names(a) == Names{"s0", "s1", "s2", "extra.weight", "extra.bias"});
  CHECK(names(b).empty());
  a.scales[1] = zeros({1});
  CHECK(a.parameters()[1].is_same(a.scales[1]));
  CHECK(a.extra->path() == "Optional.extra");

  nn::Linear one(2, 2), two(2, 2);
  const Tensor first = one.weight, second = two.weight;
  swap(one.weight, two.weight);
  CHECK(one.parameters()[0].is_same(second));
  CHECK(two.parameters()[0].is_same(first));
  CHECK(one.weight.is_same(second));
}

TEST_CASE("moved modules: a head is cut off") {
  nn::ResNet model = nn::resnet18({.classes = 10, .stem = nn::Stem::kCifar});
  model.eval();
  const Tensor x = randn({2, 3, 32, 32});
  const Tensor features = model.features(x);
  CHECK(features.shape() == Shape{2, 512});
  CHECK(same(model.fc(features), model(x)));
  CHECK(nn::resnet8().features(x).shape() == Shape{2, 64});

  nn::Sequential net{nn::Linear(4, 3), nn::ReLU(), nn::Linear(3, 2)};
  net.pop_back();
  CHECK(names(net) == Names{"0.weight", "0.bias"});
  CHECK(net(zeros({5, 4})).shape() == Shape{5, 3});
  net.push_back(nn::Linear(3, 7));
  CHECK(net(zeros({5, 4})).shape() == Shape{5, 7});
  CHECK(net[2].path() == "Sequential.2");
  nn::Sequential empty;
  CHECK_THROWS_AS(empty.pop_back(), IndexError);
}

TEST_CASE("module: has one parent, and none of its own below") {
  struct Holder : nn::Module {
    using Module::adopt;
  } a, b;
  nn::Linear layer(2, 2);
  a.adopt(layer, "layer");
  CHECK_THROWS_WITH_AS(b.adopt(layer, "other"), doctest::Contains("is Holder.layer already"),
                       StateError);
  CHECK_THROWS_AS(a.adopt(a, "self"), StateError);
  a.adopt(b, "b");
  CHECK_THROWS_AS(b.adopt(a, "above"), StateError);
  CHECK(names(a) == Names{"layer.weight", "layer.bias"});
  CHECK(names(b).empty());
}

TEST_CASE("moved modules: what outlives its module is an ordinary tensor") {
  nn::Parameter kept;
  {
    nn::Linear layer(2, 2);
    kept = std::move(layer.weight);
  }
  kept = ones({2});
  CHECK(kept.shape() == Shape{2});
}

TEST_CASE("ModuleOf: hooks see every tensor, errors have the path, summary counts") {
  struct Model : nn::Module {
    Cell cell{*this, "cell"};
  } model;
  std::vector<Shape> seen;
  const int64_t hook = model.cell.register_call_hook(
      [&](nn::Module& module, const Tensors& inputs, const Tensors& outputs) {
        CHECK(&module == &model.cell);
        for (const Tensors* list : {&inputs, &outputs}) {
          for (const Tensor& t : *list) seen.push_back(t.shape());
        }
      });
  const auto [y, next] = model.cell(zeros({2, 3}), zeros({1, 4}));
  CHECK(y.shape() == Shape{2, 4});
  CHECK(seen == std::vector<Shape>{{2, 3}, {1, 4}, {2, 4}, {2, 4}});
  model.cell.remove_hook(hook);
  CHECK(names(model) ==
        Names{"cell.in.weight", "cell.in.bias", "cell.back.weight", "cell.back.bias"});
  CHECK_THROWS_WITH_AS(model.cell(zeros({2, 5}), zeros({1, 4})),
                       doctest::Contains("Model.cell.in: "), ShapeError);
  CHECK_THROWS_AS(static_cast<nn::Module&>(model.cell)(zeros({2, 3})), StateError);
  CHECK_THROWS_AS(model.cell.register_forward_hook(
                      [](nn::Module&, const Tensor&, const Tensor&) { return Tensor(); }),
                  StateError);

  const nn::Summary table = nn::summary(model.cell, [&] {
    model.cell(zeros({2, 3}), zeros({2, 4}));
  });
  CHECK(table.rows[0].output == Shape{2, 4});
  CHECK(table.macs == 2 * (3 * 4 + 4 * 4));
  CHECK(table.input_bytes == 4 * (2 * 3 + 2 * 4));
}

TEST_CASE("ModuleOf: one tensor in, two out") {
  struct Encoder : nn::ModuleOf<std::pair<Tensor, Tensor>(Tensor x)> {
    using ModuleOf::ModuleOf, ModuleOf::forward;
    nn::Linear mean{*this, "mean", 3, 2}, spread{*this, "spread", 3, 2};
    std::pair<Tensor, Tensor> forward(Tensor x) override { return {mean(x), spread(x)}; }
  } encoder;
  const auto [mean, spread] = encoder(zeros({4, 3}));
  CHECK(mean.shape() == Shape{4, 2});
  CHECK(same(spread, encoder.spread(zeros({4, 3}))));
}

TEST_CASE("ModuleOf: tensors are found in lists, pairs, optionals, maps and structs") {
  struct Pieces {
    Tensor a, b;
    Tensors tensors() const { return {a, b}; }
  };
  const Tensor a = zeros({1}), b = zeros({2}), c = zeros({3});
  const Tensors found =
      nn::tensors_in(a, 7, std::string("x"), std::optional<Tensor>(), std::optional<Tensor>(b),
                     Tensors{c, a}, std::pair(b, 1.0), std::tuple(c, std::vector<Tensors>{{a}}),
                     std::map<std::string, Tensor>{{"k", b}}, Pieces{c, a}, Tensor());
  std::vector<int64_t> sizes;
  for (const Tensor& t : found) sizes.push_back(t.numel());
  CHECK(sizes == std::vector<int64_t>{1, 2, 3, 1, 2, 3, 1, 2, 3, 1});
}
