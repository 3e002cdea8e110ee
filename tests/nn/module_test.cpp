// The module tree: registration, names, state, modes, moves and hooks.
#include "lathe/nn/module.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/half.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/linear.h"
#include "lathe/nn/resnet.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/random.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/optim/clip_grad.h"
#include "lathe/optim/sgd.h"
#include "lathe/tests/data/files.h"

namespace lathe {
namespace {

using data::testing::message_of;

/// As a user writes one: parameters, a buffer, layers as members.
struct Block : nn::Module {
  using Module::Module;
  nn::Linear fc{*this, "fc", 2, 3};
  Tensor scale = parameter("scale", full({3}, 2.0));
  Tensor calls = buffer("calls", zeros({}, {.dtype = kI64}));
  Tensor forward(const Tensor& x) override {
    ++*calls.data<int64_t>();
    return fc(x) * scale;
  }
};

struct Net : nn::Module {
  Block first{*this, "first"};
  nn::BatchNorm1d bn{*this, "bn", 3};
  Block* shared = nullptr;
  Tensor forward(const Tensor& x) override { return bn(first(x)); }
};

template <class T>
std::vector<std::string> names(const nn::Module::Named<T>& entries) {
  std::vector<std::string> out;
  for (const auto& [name, entry] : entries) out.push_back(name);
  return out;
}
using Names = std::vector<std::string>;

TEST_CASE("module: members register themselves; own entries come before the children's") {
  Net net;
  CHECK(names(net.named_parameters()) ==
        Names{"first.scale", "first.fc.weight", "first.fc.bias", "bn.weight", "bn.bias"});
  CHECK(names(net.named_buffers()) ==
        Names{"first.calls", "bn.running_mean", "bn.running_var", "bn.num_batches_tracked"});
  CHECK(names(net.named_children()) == Names{"first", "bn"});
  CHECK(names(net.named_modules()) == Names{"", "first", "first.fc", "bn"});
  CHECK(net.children()[1] == &net.bn);
  CHECK(net.parameters().size() == 5);
  for (const Tensor& p : net.parameters()) {
    CHECK(p.requires_grad());
    CHECK(p.is_leaf());
  }
  Names state;
  for (const auto& [name, t] : net.state_dict()) state.push_back(name);
  CHECK(state == Names{"first.scale", "first.calls", "first.fc.weight", "first.fc.bias",
                       "bn.weight", "bn.bias", "bn.running_mean", "bn.running_var",
                       "bn.num_batches_tracked"});
  CHECK(net.type_name() == "Net");
  CHECK(net.bn.type_name() == "BatchNorm1d");
}

TEST_CASE("module: names that are taken, empty or dotted are refused") {
  struct Bad : nn::Module {
    void add(const std::string& name) { parameter(name, ones({1})); }
  };
  Bad bad;
  bad.add("w");
  CHECK_THROWS_WITH_AS(bad.add("w"), doctest::Contains("Bad: the name \"w\" is taken"), ValueError);
  CHECK_THROWS_WITH_AS(bad.add(""), doctest::Contains("got \"\""), ValueError);
  CHECK_THROWS_WITH_AS(bad.add("a.b"), doctest::Contains("nor hold a dot, got \"a.b\""),
                       ValueError);
  CHECK_THROWS_WITH_AS(nn::Linear(bad, "w", 1, 1), doctest::Contains("is taken"), ValueError);
  CHECK(bad.named_children().empty());  // the failed layer left no trace
}

TEST_CASE("module: a child that goes away leaves its parent, and a parent its children") {
  auto parent = std::make_unique<nn::Module>();
  {
    nn::Linear child(*parent, "child", 1, 1);
    CHECK(parent->parameters().size() == 2);
  }
  CHECK(parent->parameters().empty());
  nn::Linear orphan(*parent, "child", 1, 1);
  parent.reset();
  CHECK(orphan.parameters().size() == 2);
}

TEST_CASE("module: a shared parameter counts once, also in the state") {
  struct Tied : nn::Module {
    nn::Linear a{*this, "a", 2, 2};
    Tensor again = parameter("again", a.weight);
  };
  Tied tied;
  CHECK(names(tied.named_parameters()) == Names{"again", "a.bias"});
  CHECK(tied.state_dict().size() == 2);
  CHECK_NOTHROW(optim::SGD(tied.parameters(), {.lr = 0.1}));
}

TEST_CASE("module: train and eval reach everything below") {
  Net net;
  CHECK(net.bn.is_training());
  net.eval();
  CHECK_FALSE(net.is_training());
  CHECK_FALSE(net.first.fc.is_training());
  net.first.train();
  CHECK(net.first.fc.is_training());
  CHECK_FALSE(net.bn.is_training());
}

TEST_CASE("module: apply visits children before parents, zero_grad drops gradients") {
  Net net;
  Names order;
  net.apply([&](nn::Module& module) { order.push_back(module.type_name()); });
  CHECK(order == Names{"Linear", "Block", "BatchNorm1d", "Net"});
  net.first.scale.set_grad(ones({3}));
  net.zero_grad();
  CHECK_FALSE(net.first.scale.grad().defined());
}

TEST_CASE(
    "module: to(dtype) and half() rewrite tensors in place; batch norms keep f32, integers their "
    "dtype") {
  Net net;
  const Tensor held = net.first.scale;  // as an optimiser holds it
  net.first.scale.set_grad(ones({3}));
  net.half();
  CHECK(held.dtype() == kF16);
  CHECK(held.is_same(net.first.scale));
  CHECK(held.requires_grad());
  CHECK_FALSE(held.grad().defined());
  CHECK(held.to_vector<float>() == std::vector<float>(3, 2.f));
  CHECK(net.first.fc.weight.dtype() == kF16);
  CHECK(net.first.calls.dtype() == kI64);
  CHECK(net.bn.weight.dtype() == kF32);
  CHECK(net.bn.running_var.dtype() == kF32);
  net.to(kF64);
  CHECK(net.bn.running_var.dtype() == kF64);
  CHECK(held.dtype() == kF64);
  CHECK_THROWS_WITH_AS(net.to(kI32), doctest::Contains("must be floating, got i32"), DTypeError);
  net.to(Device("cpu"));
  CHECK(held.dtype() == kF64);
  if (!cuda_is_available()) CHECK_THROWS_AS(net.to(Device("cuda")), DeviceError);
}

TEST_CASE("module: to(kChannelsLast) rearranges filters alone, and a step trains them as before") {
  const auto filters_after_a_step = [](MemoryFormat format) {
    manual_seed(4);
    nn::CifarResNet net = nn::resnet8();
    const auto before = net.conv1.weight.to_vector<float>();
    const Tensor held = net.conv1.weight;  // as an optimiser holds it
    optim::SGD optimizer(net.parameters(), {.lr = 0.1, .momentum = 0.9});
    net.to(format);
    CHECK(held.is_same(net.conv1.weight));
    CHECK(held.shape() == Shape{16, 3, 3, 3});
    CHECK(held.is_contiguous(format));
    CHECK(held.to_vector<float>() == before);
    CHECK(net.fc.weight.is_contiguous());
    for (int step = 0; step < 2; ++step) {
      optimizer.zero_grad();
      net(randn({2, 3, 8, 8}).contiguous(kChannelsLast)).square().sum().backward();
      CHECK(held.grad().is_contiguous(format));
      optim::clip_grad_norm_(net.parameters(), 1.0);
      optimizer.step();
    }
    CHECK(held.is_contiguous(format));
    net.to(kF64).to(kF32);
    CHECK(held.is_contiguous(format));
    return held.to_vector<float>();
  };
  CHECK(filters_after_a_step(kChannelsLast) == filters_after_a_step(kContiguous));
}

TEST_CASE("module: to() changes nothing if one of the parameters is a view") {
  struct Tied : nn::Module {
    Tensor first = parameter("first", ones({2}));
    Tensor whole = ones({4});
    Tensor half_of_it = buffer("half_of_it", whole.narrow(0, 0, 2));
  } net;
  CHECK_THROWS_WITH_AS(net.to(kF64), doctest::Contains("to: half_of_it is a view"), StateError);
  CHECK(net.first.dtype() == kF32);
  CHECK(net.half_of_it.dtype() == kF32);
  net.to(kF32);  // nothing to change
}

TEST_CASE("module: load_state_dict takes the module's own tensors, under other names too") {
  struct Pair : nn::Module {
    Tensor a = parameter("a", tensor({1.f, 2.f, 3.f}));
    Tensor b = parameter("b", tensor({4.f, 5.f, 6.f}));
    Tensor c = buffer("c", tensor({7.0, 8.0, 9.0}, kF64));
  } net;
  const StateDict own = net.state_dict();
  StateDict rotated;
  rotated.add("a", own.at("b"));
  rotated.add("b", own.at("c"));
  rotated.add("c", own.at("a"));
  net.load_state_dict(rotated);
  CHECK(net.a.to_vector<float>() == std::vector<float>{4, 5, 6});
  CHECK(net.b.to_vector<float>() == std::vector<float>{7, 8, 9});
  CHECK(net.c.to_vector<float>() == std::vector<float>{1, 2, 3});
  const uint32_t version = net.a.version();
  net.load_state_dict(net.state_dict());
  CHECK(net.a.to_vector<float>() == std::vector<float>{4, 5, 6});
  CHECK(net.a.version() == version);
}

TEST_CASE("module: state_dict shares values; load_state_dict writes into the same tensors") {
  Net net, other;
  const StateDict kept = net.state_dict().clone();
  const Tensor held = net.first.fc.weight;
  const uint32_t version = held.version();
  net.load_state_dict(other.state_dict());
  CHECK(held.to_vector<float>() == other.first.fc.weight.to_vector<float>());
  CHECK(held.version() > version);
  CHECK_FALSE(held.shares_storage(other.first.fc.weight));
  CHECK(net.state_dict().at("first.fc.weight").shares_storage(held));
  CHECK_FALSE(net.state_dict().at("first.fc.weight").requires_grad());
  net.load_state_dict(kept);
  CHECK(held.to_vector<float>() == kept.at("first.fc.weight").to_vector<float>());
}

TEST_CASE(
    "module: load_state_dict converts floats, and is all or nothing with every fault listed") {
  Net net;
  const auto before = net.first.scale.to_vector<float>();
  StateDict bad;
  for (const auto& [name, t] : net.state_dict().clone()) {
    if (name == "bn.bias" || name == "bn.weight") continue;
    if (name == "first.fc.bias") {
      bad.add(name, zeros({4}));
    } else if (name == "first.calls") {
      bad.add_number(name, 1.5);
    } else {
      bad.add(name, zeros(t.shape(), {.dtype = t.dtype()}));
    }
  }
  bad.add("extra", ones({1}));
  CHECK(message_of<ValueError>([&] { net.load_state_dict(bad); }) ==
        "load_state_dict: Net does not take this state: 2 missing: bn.weight, bn.bias; 1 "
        "unexpected: extra; "
        "2 of another shape or dtype: first.calls (f64[]@cpu instead of i64[]@cpu), first.fc.bias "
        "(f32[4]@cpu instead of "
        "f32[3]@cpu)");
  CHECK(net.first.scale.to_vector<float>() == before);
  CHECK_THROWS_AS(net.load_state_dict(bad, {.strict = false}),
                  ValueError);  // shapes must fit in any case
  CHECK(net.first.scale.to_vector<float>() == before);

  StateDict partial;
  partial.add("first.scale", tensor({1.0, 2.0, 3.0}, kF64));  // f64
  partial.add("extra", ones({1}));
  const nn::LoadReport report = net.load_state_dict(partial, {.strict = false});
  CHECK(net.first.scale.to_vector<float>() == std::vector<float>{1, 2, 3});
  CHECK(net.first.scale.dtype() == kF32);
  CHECK(report.missing.size() == 8);
  CHECK(report.unexpected == Names{"extra"});
}

TEST_CASE("module: hooks see calls in order and may replace input and output") {
  Net net;
  Names seen;
  net.register_forward_pre_hook([&](nn::Module& m, const Tensor&) {
    seen.push_back("before " + m.type_name());
    return Tensor();
  });
  const int64_t replace =
      net.first.register_forward_hook([&](nn::Module&, const Tensor& x, const Tensor& y) {
        seen.push_back(concat("first ", x.shape(), y.shape()));
        return zeros({4, 3});
      });
  int calls = 0;
  int64_t once = 0;
  once = net.bn.register_forward_hook([&](nn::Module& m, const Tensor& x, const Tensor&) {
    ++calls;
    CHECK(x.to_vector<float>() == std::vector<float>(12, 0.f));
    m.remove_hook(once);
    return Tensor();
  });
  net(ones({4, 2}));
  CHECK(seen == Names{"before Net", "first [4,2][4,3]"});
  net.first.remove_hook(replace);
  net(ones({4, 2}));
  CHECK(calls == 1);
  CHECK(seen.size() == 3);
}

TEST_CASE("module: a hook after the call sees the input that one before it put there") {
  Net net;
  const Tensor replaced = full({4, 2}, 7.f);
  net.register_forward_pre_hook([&](nn::Module&, const Tensor&) { return replaced; });
  Tensor input, output;
  net.register_forward_hook([&](nn::Module&, const Tensor& x, const Tensor& y) {
    input = x;
    output = y;
    return Tensor();
  });
  const Tensor y = net(ones({4, 2}));
  CHECK(input.is_same(replaced));
  CHECK(output.is_same(y));
}

TEST_CASE("module: a module without a forward says so") {
  nn::ModuleList list;
  CHECK_THROWS_WITH_AS(
      list(ones({1})),
      doctest::Contains("ModuleList: has no forward of one tensor (x: f32[1]@cpu)"), StateError);
}

TEST_CASE("containers: Sequential runs in order and owns; ModuleList only holds") {
  nn::Sequential seq;
  seq.add<nn::Linear>(2, 3);
  nn::Linear& last = seq.add_named<nn::Linear>("last", 3, 1);
  CHECK(names(seq.named_parameters()) == Names{"0.weight", "0.bias", "last.weight", "last.bias"});
  CHECK(seq.size() == 2);
  CHECK(&seq[1] == &last);
  const Tensor x = ones({5, 2});
  CHECK(seq(x).to_vector<float>() == last(seq[0](x)).to_vector<float>());
  CHECK_THROWS_WITH_AS(seq[2], doctest::Contains("no module 2 among 2"), IndexError);
  CHECK_THROWS_AS(seq.add_named<nn::Linear>("last", 1, 1), ValueError);
  CHECK(seq.size() == 2);
  CHECK(nn::Sequential()(x).is_same(x));

  nn::Module parent;
  nn::ModuleList list(parent, "heads");
  list.add<nn::Linear>(1, 2);
  list.add<nn::Identity>();
  CHECK(names(parent.named_parameters()) == Names{"heads.0.weight", "heads.0.bias"});
}

TEST_CASE("module: several threads evaluate one model at once") {
  nn::CifarResNet model = nn::resnet8();
  model.eval();
  const Tensor x = randn({2, 3, 8, 8});
  const NoGrad no_grad;
  const std::vector<float> alone = model(x).to_vector<float>();
  std::vector<std::vector<float>> results(4);
  std::vector<std::thread> threads;
  for (std::vector<float>& result : results) {
    threads.emplace_back([&] {
      const NoGrad no_grad_here;
      for (int i = 0; i < 3; ++i) result = model(x).to_vector<float>();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<float>& result : results) CHECK(result == alone);
}

}  // namespace
}  // namespace lathe
