// Recompute: the same bits, which memory goes, what is computed again and how often.
#include "lathe/autograd/recompute.h"

#include <doctest/doctest.h>

#include <optional>
#include <string>
#include <vector>

#include "../cuda_case.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/hooks/memory_use.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/lathe.h"

using namespace lathe;
using doctest::Contains;

namespace {

const Device kGpu(DeviceType::kCUDA);

/// A stem, four blocks in a row, and one that changes the shape: one result of the third block is
/// kept, because it would take a fourth kernel.
struct Net final : nn::Module {
  nn::Conv2d conv1{*this, "conv1", 3, 8, {.kernel = 3, .pad = 1, .bias = false}};
  nn::BatchNorm2d bn1{*this, "bn1", 8};
  nn::Sequential blocks{*this, "blocks"};
  nn::Linear fc{*this, "fc", 16, 10};

  Net() {
    for (int i = 0; i < 4; ++i) blocks.add<nn::BasicBlock>(8, 8, 1, true);
    blocks.add<nn::BasicBlock>(8, 16, 2, true);
  }
  Tensor forward(const Tensor& x) override { return fc(mean(blocks(bn1.relu(conv1(x))), {2, 3})); }
};

int64_t in_use(Device device = kCPU) { return profile::memory_use(device).in_use; }

/// Counts the results that are computed again.
struct Counter final : profile::Watcher {
  int count = 0;
  void begins() override { count += std::string(open_ops().back().name) == "batch_norm_again"; }
};

struct Way {
  Device device;
  DType half;  // f32: no Autocast
  MemoryFormat format = kChannelsLast;
  bool training = true;
};

/// Two steps: the losses, and all parameters' gradients and buffers.
Tensors trained(const Way& way, bool recompute) {
  manual_seed(3);
  Net net;
  net.to(way.device).to(way.format);
  net.train(way.training);
  const Tensor x = randn({4, 3, 8, 8}).contiguous(way.format).to(way.device);
  const Tensor y = randint(0, 10, {4}).to(way.device);
  Tensors all;
  for (int step = 0; step < 2; ++step) {
    const Recompute again(recompute);
    Tensor scores;
    {
      const Autocast half(way.device, way.half == kF32 ? kF16 : way.half, way.half != kF32);
      scores = net(x);
    }
    const Tensor loss = cross_entropy(scores.to(kF32), y);
    loss.backward();
    all.push_back(loss.detach().cpu());
  }
  for (const Tensor& p : net.parameters()) all.push_back(p.grad().cpu());
  for (const auto& [name, t] : net.state_dict()) all.push_back(t.cpu());
  return all;
}

void check_same(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CAPTURE(i);
    CHECK(a[i].to_vector<double>() == b[i].to_vector<double>());
  }
}

/// The leaves of relu(norm(conv(x, w1)) + residual) with a convolution behind it.
struct Leaves {
  Tensor x, w1, w2, weight, bias;
};
Leaves leaves(DType dtype, const Shape& x) {
  manual_seed(5);
  const TensorOptions as{.dtype = dtype};
  const int64_t c = x[1];
  return {randn(x, as).requires_grad_(), randn({c, c, 3, 3}, as).requires_grad_(),
          randn({c, c, 3, 3}, as).requires_grad_(), (rand({c}, as) + 0.5).detach().requires_grad_(),
          randn({c}, as).requires_grad_()};
}
Tensor norm_relu(const Leaves& l, const Tensor& x) {
  return batch_norm_relu(x, l.weight, l.bias, {}, {}, {.training = true});
}

}  // namespace

TEST_CASE("recompute: losses, gradients and statistics have the same bits") {
  for (const Way& way : {Way{kCPU, kF32, kContiguous}, Way{kCPU, kF32}, Way{kCPU, kBF16},
                         Way{.device = kCPU, .half = kF32, .training = false}})
    check_same(trained(way, false), trained(way, true));
}

TEST_CASE("recompute: the same on a GPU" * test::cuda_case()) {
  check_same(trained({kGpu, kF16}, false), trained({kGpu, kF16}, true));
}

TEST_CASE("recompute: of conv(relu(norm(x))) only x is kept, and each result is made once") {
  const Leaves l = leaves(kF32, {2, 16, 32, 32});
  const int64_t size = l.x.bytes();
  const auto loss_of = [&](bool on) {
    const Recompute again(on);
    const Tensor h = conv2d(l.x, l.w1, {.pad = 1});
    return mean(conv2d(norm_relu(l, h), l.w2, {.pad = 1}));
  };
  const auto clear = [&] {
    for (const Tensor& leaf : {l.x, l.w1, l.w2, l.weight, l.bias}) leaf.set_grad({});
  };
  loss_of(false).backward();
  clear();
  struct Kept {
    int64_t before, after;  // the backward pass
  };
  // On a CPU convolutions hold other scratch memory after a pass than before it. So what is held is
  // compared with what is held at the same place without Recompute.
  const auto kept = [&](bool on, bool retain) {
    const int64_t before = in_use();
    Tensor loss = loss_of(on);
    Kept held{.before = in_use() - before, .after = 0};
    Counter counter;
    loss.backward({.retain_graph = retain});
    CHECK(counter.count == (on ? 1 : 0));
    clear();
    held.after = in_use() - before;
    if (retain) {
      loss.backward();
      CHECK(counter.count == (on ? 2 : 0));
      clear();
    }
    loss = {};
    CHECK(in_use() == before);
    return held;
  };
  for (const bool retain : {false, true}) {
    const Kept plain = kept(false, retain), less = kept(true, retain);
    CHECK(plain.before - less.before == size);
    CHECK(plain.after - less.after == (retain ? size : 0));  // what was computed again is gone
  }
}

TEST_CASE("recompute: a chain of residuals costs one kernel more with each, and three at most") {
  Net net;
  const Tensor x = randn({2, 3, 16, 16}).contiguous(kChannelsLast);
  const int64_t size = 2 * 8 * 16 * 16 * 4;
  const auto held_and_made = [&](bool on) {
    const int64_t before = in_use();
    Tensor loss;
    {
      const Recompute again(on);
      loss = mean(net(x));
    }
    const int64_t held = in_use() - before;
    Counter counter;
    loss.backward();
    for (const Tensor& p : net.parameters()) p.set_grad({});
    return std::pair(held, counter.count);
  };
  held_and_made(false);  // convolutions keep the scratch memory of their first call
  const auto [plain, none] = held_and_made(false);
  const auto [less, made] = held_and_made(true);
  CHECK(none == 0);
  // Inside the blocks 5; of the stem and two blocks 1 + 2 + 3; the third block's result is kept;
  // the fourth's takes 1; the last one's 1 for its shortcut and 1.
  CHECK(made == 5 + 6 + 1 + 2);
  // In units of the large results: 4 and a half in the blocks, 3 of a chain, the fourth block's,
  // and the last one's. What a leaf keeps beside it is small.
  CHECK(plain - less == size * 9);
}

TEST_CASE("recompute: a pass that retains the graph gives each result back with its last op") {
  Net net;
  const Tensor x = randn({2, 3, 16, 16}).contiguous(kChannelsLast);
  const int64_t size = 2 * 8 * 16 * 16 * 4;
  int64_t at_end = 0;  // when the first layer's gradient comes, the last one
  net.conv1.weight.register_hook([&](const Tensor& g) {
    at_end = in_use();
    return g;
  });
  const auto held = [&](bool on) {
    Tensor loss;
    {
      const Recompute again(on);
      loss = mean(net(x));
    }
    loss.backward({.retain_graph = true});
    for (const Tensor& p : net.parameters()) p.set_grad({});
    return at_end;
  };
  held(false);  // convolutions keep the scratch memory of their first call
  const int64_t plain = held(false), less = held(true);
  CHECK(plain - less == size * 9);  // as in the case before
}

TEST_CASE("recompute: an op that reads its input twice has it computed once") {
  const Leaves l = leaves(kF32, {2, 2, 6, 6});
  const Recompute again;
  const Tensor loss = mean(amax(norm_relu(l, conv2d(l.x, l.w1)), {2, 3}));
  Counter counter;
  loss.backward();
  CHECK(counter.count == 1);
}

TEST_CASE("recompute: the kernels of both inputs count") {
  const Recompute again;
  const Tensor one = ones({4}), zero = zeros({4}), x = randn({2, 4, 5, 5}).requires_grad_();
  const BatchNormOptions training{.training = true};
  const auto norm = [&](const Tensor& t) { return batch_norm(t, one, zero, {}, {}, training); };
  const auto steps_of_sum = [&](const Tensor& residual) {
    const Tensor y = batch_norm_add_relu(norm(norm(x)), residual, one, zero, {}, {}, training);
    return autograd::recompute_steps(y);
  };
  CHECK(autograd::recompute_steps(norm(norm(x))) == 2);
  CHECK(steps_of_sum(x * 2) == 3);
  CHECK(steps_of_sum(norm(x)) == 0);  // 4 are too many
  CHECK(steps_of_sum(norm(norm(x))) == 0);
}

TEST_CASE("recompute: gradients and their gradients agree with finite differences in f64") {
  const Leaves l = leaves(kF64, {2, 2, 3, 3});
  const auto f = [](const Tensors& in) {
    const Recompute again;
    const Tensor h = conv2d(in[0], in[1], {.pad = 1});
    const Tensor a = batch_norm(h, in[3], in[4], {}, {}, {.training = true});
    const Tensor b = batch_norm_add_relu(h, a, in[3], in[4], {}, {}, {.training = true});
    return square(conv2d(b, in[2], {.pad = 1}));
  };
  const Tensors inputs{l.x, l.w1, l.w2, l.weight, l.bias};
  const GradReport once = gradcheck(f, inputs), twice = gradgradcheck(f, inputs);
  CHECK_MESSAGE(once.ok, once.text);
  CHECK_MESSAGE(twice.ok, twice.text);
}

TEST_CASE("recompute: together with checkpoint() the bits are the same, in either order") {
  enum class Form { kPlain, kOutside, kInside, kBoth };
  for (const bool stays : {false, true}) {  // the Recompute around it lives in the backward pass
    const auto gradients = [&](Form form) {
      const Leaves l = leaves(kF32, {2, 4, 6, 6});
      const auto block = [&](const Tensors& in) {
        const bool inside = form == Form::kInside || form == Form::kBoth;
        const Recompute again(inside || autograd::recomputes());
        return conv2d(norm_relu(l, conv2d(in[0], l.w1, {.pad = 1})), l.w2, {.pad = 1});
      };
      std::optional<Recompute> again;
      again.emplace(form == Form::kOutside || form == Form::kBoth);
      // A result of batch norm goes into the checkpoint, and the checkpoint's into a batch norm.
      const Tensor in = norm_relu(l, l.x * 1);
      const Tensor h = form == Form::kPlain
                           ? block({in})
                           : checkpoint([&](const Tensors& t) { return block(t); }, {in});
      const Tensor loss = mean(conv2d(norm_relu(l, h), l.w1, {.pad = 1}));
      if (!stays) again.reset();
      loss.backward();
      again.reset();
      Tensors all{loss.detach()};
      for (const Tensor& leaf : {l.x, l.w1, l.w2, l.weight, l.bias}) all.push_back(leaf.grad());
      return all;
    };
    const Tensors plain = gradients(Form::kPlain);
    for (const Form form : {Form::kOutside, Form::kInside, Form::kBoth}) {
      CAPTURE(static_cast<int>(form));
      check_same(plain, gradients(form));
    }
  }
}

TEST_CASE("recompute: a checkpoint keeps its input in place of a result, and memory comes back") {
  const Leaves l = leaves(kF32, {2, 16, 32, 32});
  const auto clear = [&] {
    for (const Tensor& leaf : {l.x, l.w1, l.w2, l.weight, l.bias}) leaf.set_grad({});
  };
  const auto block = [&](const Tensors& in) {
    return conv2d(norm_relu(l, conv2d(in[0], l.w1, {.pad = 1})), l.w2, {.pad = 1});
  };
  struct Kept {
    int64_t held, left;  // before the backward pass, and at the end
    int made;            // results computed again in it
  };
  const auto kept = [&](bool on, bool checkpointed) {
    const int64_t before = in_use();
    Tensor loss;
    {
      const Recompute again(on);
      const Tensor in = norm_relu(l, conv2d(l.x, l.w1, {.pad = 1}));
      loss = mean(checkpointed ? checkpoint(block, {in}) : block({in}));
    }
    Kept out{.held = in_use() - before, .left = 0, .made = 0};
    Counter counter;
    loss.backward();
    out.made = counter.count;
    clear();
    loss = {};
    out.left = in_use() - before;
    return out;
  };
  kept(false, false);  // convolutions keep the scratch memory of their first call
  const int64_t size = l.x.bytes();
  const Kept plain = kept(false, true), less = kept(true, true);
  CHECK(plain.left == 0);
  CHECK(less.left == 0);
  CHECK(plain.made == 0);
  CHECK(less.made == 1);  // the checkpoint's input; in its second call nothing is computed again
  CHECK(plain.held - less.held == size);
  CHECK(kept(true, false).made == 2);
}

TEST_CASE("recompute: hooks on saved tensors get them, and nothing is computed again") {
  const Leaves l = leaves(kF32, {2, 2, 6, 6});
  int packed = 0;
  const auto step = [&](bool on) {
    packed = 0;
    const SavedTensorHooks hooks([&](const Tensor& t) { return ++packed, t.clone(); },
                                 [](const Tensor& t) { return t; });
    const Recompute again(on);
    return mean(conv2d(norm_relu(l, conv2d(l.x, l.w1)), l.w2));
  };
  step(false);
  const int expected = packed;
  const Tensor loss = step(true);
  CHECK(packed == expected);
  Counter counter;
  loss.backward();
  CHECK(counter.count == 0);
}

TEST_CASE("recompute: what was written, and what has no recorded op, is kept") {
  const Leaves l = leaves(kF32, {2, 2, 3, 3});
  const Recompute again;
  Counter counter;
  Tensor z = norm_relu(l, l.x * 1);
  z.add_(1);
  mean(conv2d(z, l.w2)).backward();
  CHECK(counter.count == 0);
  {
    const NoGrad off;
    z = norm_relu(l, l.x);
  }
  mean(conv2d(z, l.w2)).backward();
  CHECK(counter.count == 0);
}

TEST_CASE("recompute: an op gets the values of before its input was written") {
  const Leaves l = leaves(kF32, {2, 2, 3, 3});
  const auto gradient = [&](bool write) {
    const Recompute again;
    const Tensor z = norm_relu(l, l.x * 1), loss = mean(conv2d(z, l.w2));
    if (write) {
      const NoGrad off;
      z.mul_(3);
    }
    l.w2.set_grad({});
    loss.backward();
    return l.w2.grad();
  };
  check_same({gradient(false)}, {gradient(true)});
}

TEST_CASE("recompute: a residual that was written in between is an error") {
  const Leaves l = leaves(kF32, {2, 2, 3, 3});
  const Recompute again;
  const Tensor residual = l.x * 2;
  const Tensor y =
      batch_norm_add_relu(l.x * 1, residual, l.weight, l.bias, {}, {}, {.training = true});
  const Tensor loss = mean(conv2d(y, l.w2));
  {
    const NoGrad off;
    residual.add_(1);
  }
  CHECK_THROWS_WITH_AS(
      loss.backward(),
      Contains("a tensor that Recompute saved was modified by an in-place operation"), StateError);
}

TEST_CASE("recompute: in a captured graph the step has the bits of the plain one" *
          test::cuda_case()) {
  const auto run = [](bool recompute, bool captured) {
    manual_seed(3);
    Net net;
    net.to(kGpu).to(kChannelsLast);
    const Tensor x = randn({4, 3, 8, 8}).contiguous(kChannelsLast).to(kGpu);
    const Tensor y = randint(0, 10, {4}).to(kGpu);
    optim::SGD sgd(net.parameters(), {.lr = 0.1});
    Tensor loss;
    const auto step = [&] {
      const Recompute again(recompute);
      const Autocast half(kGpu, kF16);
      loss = cross_entropy(net(x).to(kF32), y);
      loss.backward();
      sgd.step();
      sgd.zero_grad();
    };
    step();
    cuda::Graph graph(kGpu);
    if (captured) graph.capture(step);
    for (int i = 0; i < 2; ++i) captured ? graph.launch() : step();
    Tensors all{loss.detach().cpu()};
    for (const auto& [name, t] : net.state_dict()) all.push_back(t.cpu());
    return all;
  };
  const Tensors plain = run(false, false);
  check_same(plain, run(true, false));
  check_same(plain, run(true, true));
}
