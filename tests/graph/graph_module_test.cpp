// Graphs as modules that train. make_onnx_golden.py made the files in golden_onnx/, with the losses
// and weights that ten steps in PyTorch have.
#include "lathe/graph/graph_module.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/formats/safetensors.h"
#include "lathe/core/log.h"
#include "lathe/core/random/generator.h"
#include "lathe/graph/file.h"
#include "lathe/graph/onnx/onnx.h"
#include "lathe/graph/passes.h"
#include "lathe/graph/trace.h"
#include "lathe/nn/fine_tuning.h"
#include "lathe/nn/functional_call.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/summary.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/optim/sgd.h"
#include "lathe/tests/data/files.h"
#include "lathe/tests/graph/onnx_files.h"

using namespace lathe;
using data::testing::message_of;
using doctest::Contains;
using testing::onnx_int;
using testing::onnx_real;
using testing::OnnxText;

namespace {

const std::filesystem::path kGoldenOnnx = LATHE_GOLDEN_ONNX;

std::string golden_file(const std::string& name) { return (kGoldenOnnx / name).string(); }
StateDict golden() { return safetensors::read(golden_file("golden.safetensors")).tensors; }

double largest_difference(const Tensor& a, const Tensor& b) {
  REQUIRE(a.shape() == b.shape());
  return (a.detach().cpu().to(kF64) - b.detach().cpu().to(kF64)).abs().max().item<double>();
}

/// Ten steps as make_onnx_golden.py does them.   → the losses
std::vector<double> train(nn::Module& model, const StateDict& want) {
  optim::SGD opt(model.parameters(), {.lr = 0.1, .momentum = 0.9});
  std::vector<double> losses;
  for (int i = 0; i < 10; ++i) {
    opt.zero_grad();
    const Tensor loss = cross_entropy(model(want.at("x")), want.at("labels"));
    loss.backward();
    opt.step();
    losses.push_back(loss.item<double>());
  }
  return losses;
}

std::vector<std::string> names_of(const nn::Module::Named<Tensor>& entries) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : entries) names.push_back(name);
  return names;
}

/// x of [N,2] through a batch norm and a dropout of 0.5.
std::string norm_and_dropout() {
  OnnxText text;
  text.input("x", {"n", "2"}).reals("bn.w", {2}, {1, 1}).reals("bn.b", {2}, {0, 0});
  text.reals("bn.mean", {2}, {0, 0}).reals("bn.var", {2}, {1, 1}).reals("p", {}, {0.5f});
  text.node("BatchNormalization", {"x", "bn.w", "bn.b", "bn.mean", "bn.var"}, {"y"},
            {onnx_real("momentum", 0.75f), onnx_int("training_mode", 1)});
  text.node("Dropout", {"y", "p"}, {"z"}).output("z");
  return text.file();
}

}  // namespace

TEST_CASE("graph module: ten steps from an ONNX file have PyTorch's losses and weights") {
  const StateDict want = golden();
  const std::vector<double> losses = want.at("losses").to_vector<double>();
  for (const char* file : {"traced.onnx", "exported.onnx"}) {
    CAPTURE(file);
    jit::GraphModule model = jit::load_onnx_module(golden_file(file));
    const std::vector<double> got = train(model, want);
    for (size_t i = 0; i < losses.size(); ++i) CHECK(std::abs(got[i] - losses[i]) < 1e-5);
    CHECK(losses.back() < 0.95 * losses.front());
    const StateDict state = model.state_dict();
    for (const auto& [name, tensor] : want) {
      if (name == "x" || name == "labels" || name == "losses" || name == "scores") continue;
      CAPTURE(name);
      REQUIRE(state.find(name) != nullptr);
      CHECK(largest_difference(state.at(name), tensor) < 1e-4);
    }
    model.eval();
    CHECK(largest_difference(model(want.at("x")), want.at("scores")) < 1e-4);
  }
}

TEST_CASE("graph module: what an ONNX file's weights are") {
  const jit::GraphModule model = jit::load_onnx_module(golden_file("exported.onnx"));
  const std::vector<std::string> wanted = {
      "scale",        "conv1.weight",   "bn1.weight",   "bn1.bias",    "block.0.weight",
      "block.0.bias", "block.1.weight", "block.1.bias", "norm.weight", "norm.bias",
      "fc1.weight",   "fc2.weight",     "fc2.bias"};
  std::vector<std::string> got = names_of(model.named_parameters()), sorted = wanted;
  std::ranges::sort(got), std::ranges::sort(sorted);
  CHECK(got == sorted);

  OnnxText text;  // as TensorFlow's converter names them
  text.input("x", {"n", "2"}).reals("mean", {2}, {1, 2}).reals("std", {2}, {2, 2});
  text.reals("layer1/kernel:0", {2, 3}, {1, 2, 3, 4, 5, 6}).reals("layer1/bias:0", {3}, {0, 0, 1});
  text.reals("eps", {}, {0.5f}).reals("gain", {1, 3}, {1, 2, 3});
  text.node("Sub", {"x", "mean"}, {"a"}).node("Div", {"a", "std"}, {"b"});
  text.node("MatMul", {"b", "layer1/kernel:0"}, {"c"}).node("Add", {"c", "layer1/bias:0"}, {"d"});
  text.node("Mul", {"d", "gain"}, {"e"}).node("Add", {"e", "eps"}, {"y"}).output("y");
  jit::GraphModule other = jit::load_onnx_module(text.file(), "m.onnx");
  CHECK(names_of(other.named_parameters()) ==
        std::vector<std::string>{"layer1/kernel_0", "layer1/bias_0", "gain"});
  CHECK(names_of(other.named_buffers()) == std::vector<std::string>{"mean", "std", "eps"});
  other.run({ones({4, 2})})[0].sum().backward();
  for (const Tensor& parameter : other.parameters()) CHECK(parameter.grad().defined());
}

TEST_CASE("graph module: batch norm and dropout follow the modes") {
  manual_seed(3);
  jit::GraphModule model = jit::load_onnx_module(norm_and_dropout(), "m.onnx");
  const Tensor x = tensor({{1.f, 2.f}, {3.f, 6.f}});
  const auto buffer = [&](const char* name) {
    return model.state_dict().at(name).to_vector<double>();
  };
  CHECK(model.is_training());
  const std::vector<double> y = model(x).to_vector<double>();
  for (const double value : y) CHECK((value == 0 || std::abs(std::abs(value) - 2) < 1e-4));
  CHECK(buffer("bn.mean") == std::vector<double>{0.5, 1});     // 0.75 * 0 + 0.25 * [2, 4]
  CHECK(buffer("bn.var") == std::vector<double>{1.25, 2.75});  // 0.75 * 1 + 0.25 * [2, 8]

  model.eval();
  const double scale = 1 / std::sqrt(1.25 + 1e-5);
  CHECK(model(x)[1][0].item<double>() == doctest::Approx((3 - 0.5) * scale));
  CHECK(buffer("bn.mean") == std::vector<double>{0.5, 1});

  model.train();
  model.named_modules()[1].second->eval();  // the batch norm's statistics are frozen
  bool has_drawn = false;
  for (int i = 0; i < 20 && !has_drawn; ++i) has_drawn = model(x)[0][0].item<double>() == 0;
  CHECK(has_drawn);
  CHECK(buffer("bn.mean") == std::vector<double>{0.5, 1});
}

TEST_CASE("graph module: the graph in training is the whole model, as text and weights") {
  jit::GraphModule model = jit::load_onnx_module(norm_and_dropout(), "norm.onnx");
  jit::Graph graph = jit::parse(model.training_graph().text());
  StateDict weights;
  for (const auto& [name, tensor] : model.state_dict()) weights.add(name, tensor.clone());
  graph.bind(weights);
  jit::GraphModule copy(graph);
  CHECK(names_of(copy.named_parameters()) == names_of(model.named_parameters()));
  const Tensor x = tensor({1.f, -2.f, 3.f, 0.5f, -1.f, 4.f, 2.f, 2.f}).reshape({4, 2});
  std::vector<Tensor> results;
  for (jit::GraphModule* const one : {&model, &copy}) {
    manual_seed(7);
    one->train();
    results.push_back((*one)(x));
    one->eval();
    results.push_back((*one)(x));
  }
  CHECK(largest_difference(results[0], results[2]) == 0);
  CHECK(largest_difference(results[1], results[3]) == 0);
  CHECK(largest_difference(results[0], results[1]) >
        0.1);  // training draws, and has moved the mean
}

TEST_CASE("graph module: a trained graph goes into ONNX files and graphs, and trains again") {
  const StateDict want = golden();
  const data::testing::TempDir folder;
  jit::GraphModule model = jit::load_onnx_module(golden_file("traced.onnx"));
  train(model, want);
  model.eval();
  const Tensor scores = model(want.at("x"));
  const std::string onnx = (folder / "trained.onnx").string();
  const std::string lathe = (folder / "trained.lathe").string();
  jit::save_onnx(model.graph(), onnx);
  jit::save(model.graph(), lathe);
  CHECK(largest_difference(jit::load_onnx(onnx).graph(want.at("x")), scores) < 1e-5);
  CHECK(largest_difference(jit::load(lathe)(want.at("x")), scores) == 0);

  const std::vector<double> further = train(model.train(), want);
  jit::GraphModule from_graph(jit::load(lathe), lathe);
  const std::vector<double> again = train(from_graph, want);
  for (size_t i = 0; i < again.size(); ++i)
    CHECK(again[i] == doctest::Approx(further[i]).epsilon(1e-3));
}

TEST_CASE("graph module: computes in half under Autocast, and in the dtype of its parameters") {
  const StateDict want = golden();
  jit::GraphModule model = jit::load_onnx_module(golden_file("exported.onnx"));
  const Tensor scores = model(want.at("x"));
  {
    const Autocast half(kCPU, kBF16);
    const Tensor y = model(want.at("x"));
    CHECK(largest_difference(y, scores) < 0.1);
    y.to(kF32).sum().backward();
    for (const auto& [name, parameter] : model.named_parameters()) {
      CHECK_MESSAGE(parameter.grad().defined(), name);
    }
  }
  model.to(kBF16);
  CHECK(model.state_dict().at("conv1.weight").dtype() == kBF16);
  CHECK(model.state_dict().at("bn1.weight").dtype() == kF32);
  const Tensor y = model(want.at("x").to(kBF16));
  CHECK(y.dtype() == kBF16);
  CHECK(largest_difference(y, scores) < 0.1);
  CHECK(message_of<StateError>([&] { model.graph(); }).find("bf16 now") != std::string::npos);

  model.to(kF32);
  const Tensor zero = zeros_like(model.state_dict().at("fc2.bias"));
  const Tensor other = nn::functional_call(model, {{"fc2.bias", zero + 1}}, want.at("x"));
  CHECK(largest_difference(other, nn::functional_call(model, {{"fc2.bias", zero}}, want.at("x"))) ==
        doctest::Approx(1 / 2.5));
}

TEST_CASE("graph module: what is lost or does not fit is said") {
  std::vector<std::string> said;
  const auto before =
      set_log_handler([&](LogLevel, std::string_view text) { said.emplace_back(text); });
  jit::GraphModule folded = jit::load_onnx_module(golden_file("folded.onnx"));
  set_log_handler(before);
  REQUIRE(said.size() == 1);
  CHECK(said[0].find("folded.onnx has neither batch norm nor dropout") != std::string::npos);
  CHECK(said[0].find("TrainingMode.TRAINING") != std::string::npos);
  CHECK(folded(golden().at("x")).requires_grad());

  CHECK(message_of<DataError>([] {
          jit::load_onnx(norm_and_dropout(), "m.onnx");
        }).find("training_mode = 1") != std::string::npos);
  OnnxText drop;
  drop.input("x", {"n", "2"}).reals("p", {}, {1.5f}).node("Dropout", {"x", "p"}, {"y"}).output("y");
  CHECK(message_of<DataError>([&] {
          jit::load_onnx_module(drop.file(), "m.onnx");
        }).find("not 1.5") != std::string::npos);
  OnnxText name;
  name.input("x", {"n", "2"})
      .reals("a..b", {2}, {1, 2})
      .node("Add", {"x", "a..b"}, {"y"})
      .output("y");
  CHECK(message_of<DataError>([&] {
          jit::load_onnx_module(name.file(), "m.onnx");
        }).find("\"a..b\"") != std::string::npos);
  CHECK(message_of<StateError>([] {
          jit::GraphModule unbound(
              jit::parse("lathe graph 1\ninput %x: f32[2]\nparam @w: f32[2]\n"
                         "%0: f32[2] = mul(%x, @w)\noutput %0\n"));
        }).find("@w") != std::string::npos);
}

TEST_CASE("graph module: names without dots leave only the batch norm's tensors in f32") {
  OnnxText text;
  text.input("x", {"n", "1", "2", "2"}).reals("conv_w", {2, 1, 1, 1}, {1, 2});
  text.reals("bn_w", {2}, {1, 1}).reals("bn_b", {2}, {0, 0}).reals("bn_mean", {2}, {0, 0});
  text.reals("bn_var", {2}, {1, 1}).node("Conv", {"x", "conv_w"}, {"y"});
  text.node("BatchNormalization", {"y", "bn_w", "bn_b", "bn_mean", "bn_var"}, {"z"}).output("z");
  jit::GraphModule model = jit::load_onnx_module(text.file(), "m.onnx");
  CHECK(model.has_running_statistics());
  model.to(kBF16);
  const StateDict state = model.state_dict();
  CHECK(state.at("conv_w").dtype() == kBF16);
  for (const char* name : {"bn_w", "bn_b", "bn_mean", "bn_var"})
    CHECK_MESSAGE(state.at(name).dtype() == kF32, name);
  model.eval();
  CHECK(model.run({ones({3, 1, 2, 2}, {.dtype = kBF16})})[0].to_vector<double>()[4] == 2);
}

TEST_CASE("graph module: groups run one by one in other dtypes than the graph's") {
  struct Net : nn::Module {
    nn::Linear fc{*this, "fc", 4, 4};
    Tensor forward(const Tensor& x) override { return sigmoid(relu(fc(x)) * 2); }
  } net;
  const Tensor x = randn({16384, 4});
  const Tensor want = net(x).detach();
  jit::Graph graph = jit::trace(net, x);
  jit::fuse_pointwise(graph);
  REQUIRE(graph.nodes.back().group != 0);
  jit::GraphModule model(graph);
  CHECK(largest_difference(model(x), want) == 0);
  {
    const Autocast half(kCPU, kBF16);
    CHECK(largest_difference(model(x), want) < 0.02);
  }
  model.to(kBF16);
  const Tensor y = model(x.to(kBF16));
  CHECK(y.dtype() == kBF16);
  CHECK(largest_difference(y, want) < 0.02);
}

TEST_CASE("graph module: the modules in it refuse hooks, and a summary works without") {
  jit::GraphModule model = jit::load_onnx_module(norm_and_dropout(), "m.onnx");
  nn::Module& norm = *model.named_modules()[1].second;
  const auto look = [](nn::Module&, const Tensors&, const Tensors&) {};
  CHECK(message_of<StateError>([&] { norm.register_call_hook(look); }) ==
        "Part: \"GraphModule.bn\" only holds tensors, so no hook of it would run; register the "
        "hook with the model");
  const nn::Summary summary = nn::summary(model, {3, 2});
  CHECK(summary.rows[0].called);
  CHECK_FALSE(summary.rows[1].called);
  CHECK(summary.parameters == 4);
  CHECK(model.is_training());
}

TEST_CASE("graph module: a frozen batch norm of an ONNX file keeps its statistics") {
  jit::GraphModule model = jit::load_onnx_module(norm_and_dropout(), "m.onnx");
  CHECK_THROWS_AS(nn::freeze(model, {"bn"}), ValueError);  // nothing would be left to train
  const nn::Frozen frozen = nn::freeze_all_but(model, {});
  REQUIRE(frozen.norms.size() == 1);
  CHECK(frozen.norms[0] == model.named_modules()[1].second);
  model.train();
  frozen.hold();
  model(tensor({{1.f, 2.f}, {3.f, 6.f}}));
  CHECK(model.state_dict().at("bn.mean").to_vector<double>() == std::vector<double>{0, 0});
}

TEST_CASE("graph module: its parameters train, and the traced model's stay frozen") {
  nn::Linear fc(2, 3);
  fc.weight.requires_grad_(false);
  jit::GraphModule model(jit::trace(fc, ones({1, 2})));
  CHECK_FALSE(fc.weight.requires_grad());
  model(ones({1, 2})).sum().backward();
  for (const auto& [name, parameter] : model.named_parameters())
    CHECK_MESSAGE(parameter.grad().defined(), name);
  CHECK_FALSE(fc.bias.grad().defined());
  NoGrad off;
  model.state_dict().at("weight").fill_(2);  // one memory
  CHECK(fc.weight.to_vector<double>() == std::vector<double>(6, 2));
}
