// LoRA: the formula, what trains, merging, and errors. Files: lora_file_test.cpp.
#include "lathe/nn/lora.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <string>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/checkpoint.h"
#include "lathe/autograd/gradcheck.h"
#include "lathe/core/error.h"
#include "lathe/core/memory/host_allocator.h"
#include "lathe/graph/trace.h"
#include "lathe/nn/functional_call.h"
#include "lora_net.h"

using namespace lathe;
using namespace lathe::testing;
using doctest::Contains;

namespace {

/// A convolution with its norm.
struct NormNet final : nn::Module {
  nn::Conv2d conv{*this, "conv", 2, 4, nn::Conv2dOptions{.kernel = 3, .pad = 1, .bias = false}};
  nn::BatchNorm2d norm{*this, "norm", 4};
  nn::Conv2d groups{*this, "groups", 4, 4, nn::Conv2dOptions{.kernel = 1, .groups = 2}};
  nn::Linear head{*this, "head", 4, 3};

  Tensor forward(const Tensor& x) override { return head(groups(norm.relu(conv(x))).mean({2, 3})); }
};

std::set<std::string> names_of(const StateDict& state) {
  std::set<std::string> out;
  for (const auto& [name, t] : state) out.insert(name);
  return out;
}

}  // namespace

TEST_CASE("lora: an adapter of Linear adds scale · x A^T B^T, as loops compute it") {
  nn::Linear layer(3, 2);
  layer.to(kF64);
  const Tensor x = randn({4, 3}, {.dtype = kF64});
  const Tensor before = layer(x);
  for (const bool stabilized : {false, true}) {
    nn::Lora lora = nn::add_lora(layer, {.rank = 4, .alpha = 6, .rank_stabilized = stabilized});
    CHECK(equal(layer(x), before));
    randomise(lora);
    const Tensor a = lora.parameters()[0], b = lora.parameters()[1], y = layer(x);
    CHECK(a.shape() == Shape{4, 3});
    CHECK(b.shape() == Shape{2, 4});
    const double scale = stabilized ? 6 / 2.0 : 6 / 4.0;
    for (int64_t n = 0; n < 4; ++n) {
      for (int64_t o = 0; o < 2; ++o) {
        double want = before[n][o].item<double>();
        for (int64_t r = 0; r < 4; ++r) {
          for (int64_t i = 0; i < 3; ++i)
            want +=
                scale * b[o][r].item<double>() * a[r][i].item<double>() * x[n][i].item<double>();
        }
        CHECK(y[n][o].item<double>() == doctest::Approx(want).epsilon(1e-12));
      }
    }
    for (const Tensor& p : lora.parameters()) p.detach().zero_();
    lora.merge();  // takes it out again
  }
}

TEST_CASE("lora: first values are PEFT's") {
  Net net;
  const nn::Lora lora = nn::add_lora(net, {.rank = 8, .targets = kAdapted});
  const StateDict state = lora.state_dict();
  const std::string prefix = "base_model.model.";
  const auto largest = [&](const std::string& name) {
    return state[prefix + name].abs().max().item<double>();
  };
  CHECK(largest("fc.lora_B.weight") == 0);
  CHECK(largest("conv.lora_B.weight") == 0);
  CHECK(largest("emb.lora_embedding_A") == 0);
  CHECK(largest("fc.lora_A.weight") <= 1 / std::sqrt(4.0));
  CHECK(largest("fc.lora_A.weight") > 0.7 / std::sqrt(4.0));
  CHECK(largest("conv.lora_A.weight") <= 1 / std::sqrt(18.0));
  CHECK(largest("conv.lora_A.weight") > 0.7 / std::sqrt(18.0));
  const Tensor normal = state[prefix + "emb.lora_embedding_B"];
  CHECK(normal.shape() == Shape{4, 8});
  CHECK(normal.std().item<double>() == doctest::Approx(1).epsilon(0.5));
}

TEST_CASE("lora: merged weights give the same results, and unmerge() restores their bits") {
  Net net;
  net.to(kF64);
  const Tensor x = randn({3, 2, 7, 6}, {.dtype = kF64});
  const StateDict before = net.state_dict().clone();
  nn::Lora lora = nn::add_lora(net, {.rank = 2, .targets = kAdapted});
  randomise(lora);
  const Tensor y = net(x);
  CHECK(difference(y, net.eval()(x)) == 0);
  lora.merge();
  CHECK(names_of(net.state_dict()) == names_of(before));
  CHECK(difference(net(x), y) <= 1e-12);
  CHECK(difference(net.state_dict()["conv.weight"], before["conv.weight"]) > 0.01);
  CHECK_THROWS_WITH_AS(lora.merge(), Contains("merged already"), StateError);
  lora.unmerge();
  CHECK_THROWS_WITH_AS(lora.unmerge(), Contains("not merged"), StateError);
  for (const auto& [name, t] : before) CHECK_MESSAGE(equal(net.state_dict()[name], t), name);
  CHECK(equal(net(x), y));
}

TEST_CASE("lora: a model that is converted or moved while merged gets its adapters back there") {
  Net net;
  nn::Lora lora = nn::add_lora(net, {.rank = 2, .targets = kAdapted});
  randomise(lora);
  const Tensor x = randn({3, 2, 7, 6});
  const Tensor y = net(x);
  lora.merge();
  net.to(kF64);
  lora.unmerge();
  for (const Tensor& p : lora.parameters()) CHECK(p.dtype() == kF64);
  CHECK(difference(net(x.to(kF64)), y) <= 1e-5);
  net.to(kF32).to(kChannelsLast);
  CHECK(difference(net(x), y) <= 1e-5);
  lora.merge();
  CHECK(net.conv.weight.is_contiguous(kChannelsLast));
  CHECK(difference(net(x), y) <= 1e-5);
}

TEST_CASE("lora: gradients of every adapter agree with finite differences") {
  Net net;
  net.to(kF64);
  net.words = tensor({1, 3, 3});  // the padding row gets no gradient
  const nn::Lora lora = nn::add_lora(net, {.rank = 2, .targets = kAdapted, .trained = {"head"}});
  randomise(lora);
  const Tensor x = randn({3, 2, 7, 6}, {.dtype = kF64});
  nn::Module::Named<Tensor> trained;
  for (const auto& [name, p] : net.named_parameters()) {
    if (p.requires_grad()) trained.emplace_back(name, p);
  }
  CHECK(trained.size() == 8);
  Tensors values;
  for (const auto& [name, p] : trained) values.push_back(p.detach().clone());
  const auto f = [&](const Tensors& in) {
    nn::Module::Named<Tensor> named;
    for (size_t i = 0; i < in.size(); ++i) named.emplace_back(trained[i].first, in[i]);
    return nn::functional_call(net, named, x).square();
  };
  const GradReport report = gradcheck(f, values);
  CHECK_MESSAGE(report.ok, report.text);
}

TEST_CASE("lora: only adapters and what trains in full change in steps") {
  NormNet net;
  const StateDict before = net.state_dict().clone();
  const nn::Lora lora = nn::add_lora(net, {.rank = 2, .trained = {"head"}});
  CHECK(lora.layers() == std::vector<std::string>{"conv"});  // not the groups, not the head
  optim::AdamW adam(net.parameters(), {.lr = 0.01, .weight_decay = 0.1});
  const Tensor x = randn({4, 2, 5, 5}), labels = tensor({0, 1, 2, 1});
  double first = 0, last = 0;
  for (int step = 0; step < 10; ++step) {
    net.train();
    lora.frozen().hold();
    const Tensor loss = cross_entropy(net(x), labels);
    (step == 0 ? first : last) = loss.item<double>();
    adam.zero_grad();
    loss.backward();
    adam.step();
  }
  CHECK(last < first);
  for (const auto& [name, t] : net.state_dict()) {
    const bool is_frozen = before.contains(name) && !name.starts_with("head");
    if (is_frozen) CHECK_MESSAGE(equal(t, before[name]), name);
    if (name.starts_with("head")) CHECK_FALSE(equal(t, before[name]));
  }
  CHECK(lora.parameters()[1].abs().max().item<double>() > 0);
}

TEST_CASE("lora: checkpoint(), autocast, tracing and copies of the state see the adapters") {
  Net net;
  const nn::Lora lora = nn::add_lora(net, {.rank = 2, .targets = kAdapted});
  randomise(lora);
  const Tensor x = randn({3, 2, 7, 6});
  const Tensor y = net(x);
  y.square().sum().backward();
  const Tensor want = net.fc.named_parameters()[2].second.grad().clone();
  net.zero_grad();
  checkpoint([&](const Tensors& in) { return Tensors{net(in[0])}; }, {x})[0]
      .square()
      .sum()
      .backward();
  CHECK(difference(net.fc.named_parameters()[2].second.grad(), want) <= 1e-6);
  {
    const Autocast half(kCPU, kBF16);
    CHECK(difference(net(x), y) <= 0.05 * y.abs().max().item<double>());
  }
  const NoGrad off;
  CHECK(difference(jit::trace(net, x)(x), y) <= 1e-5);
  Net other;
  const nn::Lora its = nn::add_lora(other, {.rank = 2, .targets = kAdapted});
  other.load_state_dict(net.state_dict());
  CHECK(equal(other(x), y));
  Net half;
  half.load_state_dict([&] {
    StateDict base;
    for (const auto& [name, t] : net.state_dict()) {
      if (name.find("lora_") == name.npos) base.add(name, t);
    }
    return base;
  }());
  half.to(kBF16);
  const nn::Lora of_half = nn::add_lora(half, {.rank = 2, .targets = kAdapted});
  CHECK(of_half.parameters()[0].dtype() == kF32);
  CHECK(half(x.to(kBF16)).dtype() == kBF16);
}

TEST_CASE("lora: dropout acts in training alone") {
  nn::Linear layer(16, 4);
  const nn::Lora lora = nn::add_lora(layer, {.dropout = 0.5});
  randomise(lora);
  const Tensor x = randn({2, 16});
  layer.train();
  CHECK_FALSE(equal(layer(x), layer(x)));
  layer.eval();
  CHECK(equal(layer(x), layer(x)));
}

TEST_CASE(
    "lora: the model keeps its adapters without the Lora, and a moved layer takes them along") {
  nn::Linear layer(3, 3);
  const Tensor x = randn({2, 3});
  Tensor y;
  {
    const nn::Lora lora = nn::add_lora(layer);
    randomise(lora);
    y = layer(x);
  }
  CHECK(equal(layer(x), y));
  nn::Linear moved = std::move(layer);
  CHECK(equal(moved(x), y));
  CHECK(moved.named_parameters().size() == 4);
}

// --- errors ----------------------------------------------------------------------------------------

TEST_CASE("lora: what cannot be adapted is an error that says why") {
  Net net;
  const StateDict before = net.state_dict().clone();
  const auto fails = [&](const nn::LoraOptions& options, const char* text) {
    CHECK_THROWS_WITH_AS(nn::add_lora(net, options), Contains(text), ValueError);
    CHECK(names_of(net.state_dict()) == names_of(before));
    CHECK(net.fc.weight.requires_grad());
  };
  fails({.rank = 0}, "rank must be positive, got 0");
  fails({.alpha = -1}, "alpha must be positive, got -1");
  fails({.dropout = 1}, "dropout must be in [0,1), got 1");
  fails({.targets = {}}, "no targets");
  fails({.targets = {"fc", "con"}}, "\"con\" matches no module; did you mean conv?");
  nn::Sequential two;
  two.add_named<nn::Linear>("a", 2, 2);
  CHECK_THROWS_WITH_AS(nn::add_lora(two, {.targets = {"b"}}), Contains("a is a layer of the model"),
                       ValueError);
  struct Outer final : nn::Module {
    Net inner;
    Outer() { adopt(inner, "inner"); }
  } outer;
  CHECK_THROWS_WITH_AS(nn::add_lora(outer, {.targets = {"fc"}}), Contains("did you mean *.fc?"),
                       ValueError);
  CHECK(nn::add_lora(outer, {.targets = {"inner"}}).layers().size() == 4);
  fails({.trained = {"hed"}}, "\"hed\" matches no parameter; did you mean head?");
  NormNet other;
  CHECK_THROWS_WITH_AS(nn::add_lora(other, {.targets = {"norm"}}),
                       Contains("\"norm\" matches \"norm\" (BatchNorm2d)"), ValueError);
  CHECK_THROWS_WITH_AS(nn::add_lora(other, {.targets = {"groups"}}), Contains("one group"),
                       ValueError);
  fails({.targets = {"head"}, .trained = {"head"}},
        "\"head\" matches \"head\", which LoraOptions::trained names; it trains in full");
  const nn::Lora lora = nn::add_lora(net, {.targets = {"fc"}});
  CHECK_THROWS_WITH_AS(nn::add_lora(net, {.targets = {"conv", "fc"}}),
                       Contains("\"fc\" has an adapter already"), StateError);
  CHECK(lora.layers() == std::vector<std::string>{"fc"});
}

TEST_CASE("lora: further adapters leave those and the head training that train already") {
  Net net;
  const nn::Lora first = nn::add_lora(net, {.rank = 2, .targets = {"fc"}, .trained = {"head"}});
  const nn::Lora second = nn::add_lora(net, {.rank = 3, .targets = {"conv"}});
  for (const nn::Lora* lora : {&first, &second}) {
    for (const Tensor& p : lora->parameters()) CHECK(p.requires_grad());
  }
  CHECK_FALSE(net.fc.weight.requires_grad());
  CHECK_FALSE(net.conv.weight.requires_grad());
}

TEST_CASE("lora: a layer with either name of an adapter takes none, and nothing has changed") {
  struct Taken final : nn::Module {
    nn::Linear fc{*this, "fc", 2, 2}, other{*this, "other", 2, 2};
    nn::Linear child{other, "lora_B", 2, 2};
  } net;
  const std::set<std::string> before = names_of(net.state_dict());
  CHECK_THROWS_WITH_AS(nn::add_lora(net, {.targets = {"fc", "other"}}),
                       Contains("\"other\" has an adapter already"), StateError);
  CHECK(names_of(net.state_dict()) == before);
  CHECK(net.fc.weight.requires_grad());
}

TEST_CASE("lora: a weight that two layers share is not merged") {
  struct Tied final : nn::Module {
    nn::Embedding emb{*this, "emb", 5, 4};
    nn::Linear out{*this, "out", 4, 5, {.bias = false}};
    Tied() { out.weight = emb.weight; }
    Tensor forward(const Tensor& x) override { return out(emb(x)); }
  } net;
  nn::Lora lora = nn::add_lora(net, {.targets = {"emb"}});
  CHECK_THROWS_WITH_AS(lora.merge(), Contains("emb.weight and out.weight are one tensor"),
                       StateError);
  CHECK_FALSE(lora.is_merged());
}

TEST_CASE("lora: a merge that finds no memory for one weight leaves all as they are") {
  struct Two final : nn::Module {
    nn::Linear small{*this, "small", 1024, 4}, large{*this, "large", 4, 2 << 20};
    Tensor forward(const Tensor& x) override { return large(small(x)); }
  } net;
  nn::Lora lora = nn::add_lora(net, {.rank = 1});
  randomise(lora);
  const Tensor x = randn({2, 1024});
  const Tensor y = net(x);
  HostAllocator& host = host_allocator();
  host.empty_cache();
  host.set_limit(host.stats().reserved_bytes + (8 << 20));  // the large weight has 32 MiB
  CHECK_THROWS_AS(lora.merge(), OutOfMemoryError);
  host.set_limit(0);
  CHECK_FALSE(lora.is_merged());
  CHECK(equal(net(x), y));
  lora.merge();
  const double size = y.abs().max().item<double>();
  CHECK(difference(net(x), y) <= 1e-5 * size);
}

TEST_CASE("lora: unmerge() is refused where a layer has another adapter by now") {
  Net net;
  const Tensor x = randn({3, 2, 7, 6});
  nn::Lora lora = nn::add_lora(net, {.rank = 2, .targets = {"conv", "fc"}});
  randomise(lora);
  lora.merge();
  const Tensor merged = net(x);
  nn::Lora other = nn::add_lora(net, {.rank = 2, .targets = {"fc"}});
  CHECK_THROWS_WITH_AS(lora.unmerge(), Contains("\"fc\" has an adapter already"), StateError);
  CHECK(lora.is_merged());
  CHECK(equal(net(x), merged));  // conv is still merged
}

TEST_CASE("lora: a layer whose result is seen in another shape refuses the sum") {
  struct Heads final : nn::Module {
    using Module::Module;
    nn::Parameter weight = parameter("weight", randn({4, 3}));
    Tensor forward(const Tensor& x) override { return linear(x, weight).view({-1, 2, 2}); }
    std::optional<nn::LoraLayer> lora_layer() const override {
      return nn::LoraLayer{.weight = weight};
    }
  };
  struct Outer final : nn::Module {
    Heads heads{*this, "heads"};
    Tensor forward(const Tensor& x) override { return heads(x); }
  } net;
  const nn::Lora lora = nn::add_lora(net);
  CHECK_THROWS_WITH_AS(net(randn({2, 3})),
                       Contains("Lora: the adapter of \"heads\" gives f32[2,4]"), ShapeError);
}

TEST_CASE("lora: the name of a module does not make two of it") {
  struct Odd final : nn::Module {
    nn::Linear fc{*this, "a and b", 2, 2};
    Tensor forward(const Tensor& x) override { return fc(x); }
  } net;
  nn::Lora lora = nn::add_lora(net);
  lora.merge();
  CHECK(lora.is_merged());
}
