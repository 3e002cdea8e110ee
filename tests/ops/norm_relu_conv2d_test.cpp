// Batch norm, relu and convolution as one op on a CPU: the bits of the two ops, what it keeps, and
// when it is two ops.
#include <doctest/doctest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "lathe/autograd/companion.h"
#include "lathe/core/hooks/memory_use.h"
#include "lathe/lathe.h"
#include "lathe/ops/batch_norm_conv2d.h"

using namespace lathe;

namespace {

struct Layer {
  std::string name;
  Shape x, w;
  Pair stride = 1, pad = 1;
};
const Layer kLayers[] = {
    {"16 channels, F(4x4)", {4, 16, 8, 8}, {16, 16, 3, 3}},
    {"two blocks of channels", {3, 72, 9, 11}, {136, 72, 3, 3}},
    {"24 channels are no whole vectors", {4, 24, 7, 8}, {40, 24, 3, 3}},
    {"F(2x2)", {5, 16, 6, 6}, {16, 16, 3, 3}},
    {"stride 2", {13, 32, 33, 31}, {40, 32, 3, 3}, 2},
    {"no padding", {6, 16, 10, 10}, {24, 16, 3, 3}, 1, 0},
    {"wide padding", {6, 16, 6, 7}, {24, 16, 3, 3}, 1, {2, 3}},
};

/// The tensors of a layer, in NHWC.
struct Problem {
  explicit Problem(const Layer& layer)
      : opt{.stride = layer.stride, .pad = layer.pad},
        x((randn(layer.x) * 1.5 + randn({1, layer.x[1], 1, 1})).contiguous(kChannelsLast)),
        w(randn(layer.w).contiguous(kChannelsLast)),
        weight(rand({layer.x[1]}) + 0.5),
        bias(randn({layer.x[1]})),
        dy(randn(conv2d(x, w, opt).shape()).contiguous(kChannelsLast)) {}

  Tensors leaves() const { return {x, weight, bias, w}; }
  void ask_for_all() const {
    for (const Tensor& t : leaves()) {
      if (!t.requires_grad()) t.requires_grad_();
      t.set_grad({});
    }
  }

  Conv2dOptions opt;
  Tensor x, w, weight, bias, dy;
};

struct ExactScope {
  ExactScope() { cpu::set_conv_exact(true); }
  ~ExactScope() { cpu::set_conv_exact(false); }
};

enum class Way : uint8_t { kOneOp, kTwoOps };

/// What the backward pass says that it goes through.
bool is_one_op(const Tensor& y) { return y.grad_fn() == "batch_norm_relu_conv2d"; }

struct KeepNeeds {};  // leaves that require no gradient stay so

struct Run {
  Tensor mean, var, count, y;

  Run(const Problem& p, Way way) : Run((p.ask_for_all(), p), way, KeepNeeds{}) {}
  Run(const Problem& p, Way way, KeepNeeds)
      : mean(zeros({p.bias.dim(0)})),
        var(ones({p.bias.dim(0)})),
        count(zeros({}, {.dtype = kI64})) {
    const BatchNormOptions norm{.training = true, .momentum = 0.3, .num_batches = count};
    if (way == Way::kOneOp) {
      y = batch_norm_relu_conv2d(p.x, {p.weight, p.bias, mean, var}, p.w, norm, p.opt);
    } else {
      y = conv2d(batch_norm_relu(p.x, p.weight, p.bias, mean, var, norm), p.w, p.opt);
    }
  }

  /// Values, statistics, and the gradients of the leaves.
  Tensors all(const Problem& p) const {
    y.backward(p.dy);
    Tensors out{y.detach(), mean, var, count, autograd::companion_of(y)};
    for (const Tensor& t : p.leaves()) out.push_back(t.grad().clone());
    return out;
  }
};
constexpr const char* kNames[] = {"y",  "mean",    "var",   "count", "moments",
                                  "dx", "dweight", "dbias", "dw"};

void check_same_bits(const Tensors& a, const Tensors& b) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    CAPTURE(std::string(kNames[i]));
    CHECK(a[i].shape() == b[i].shape());
    CHECK(a[i].strides() == b[i].strides());
    const auto same = [](const Tensor& s, const Tensor& t) {
      if (s.dtype() == kI64) return s.to_vector<int64_t>() == t.to_vector<int64_t>();
      const auto u = s.to_vector<float>(), v = t.to_vector<float>();
      return std::equal(u.begin(), u.end(), v.begin(), v.end(),
                        [](float p, float q) { return p == q || (p != p && q != q); });
    };
    CHECK(same(a[i], b[i]));
  }
}

}  // namespace

TEST_CASE("norm relu conv2d: one op has the bits of the two, forward and back") {
  manual_seed(1);
  for (const Layer& layer : kLayers) {
    CAPTURE(layer.name);
    const Problem p(layer);
    const Run one(p, Way::kOneOp);
    CHECK(is_one_op(one.y));
    const Tensors got = one.all(p);
    const Run two(p, Way::kTwoOps);
    CHECK(!is_one_op(two.y));
    check_same_bits(got, two.all(p));
  }
}

TEST_CASE("norm relu conv2d: NaN and infinity come through as in the two ops") {
  manual_seed(2);
  const Problem p(kLayers[0]);
  p.x.data<float>()[100] = std::numeric_limits<float>::quiet_NaN();
  p.x.data<float>()[901] = std::numeric_limits<float>::infinity();
  const Tensors got = Run(p, Way::kOneOp).all(p);
  check_same_bits(got, Run(p, Way::kTwoOps).all(p));
  CHECK(isnan(got[0]).any().item<bool>());
}

TEST_CASE("norm relu conv2d: sums that a convolution left for x are used") {
  manual_seed(3);
  const Problem p(kLayers[0]);
  const Tensor w0 = randn({16, 16, 3, 3}).contiguous(kChannelsLast).requires_grad_();
  const auto run = [&](Way way) {
    Problem q = p;
    q.x = conv2d(p.x.detach(), w0, p.opt);
    CHECK(autograd::companion_of(q.x).defined());
    q.x.retain_grad();
    const Run r(q, way);
    r.y.backward(q.dy);
    return Tensors{
        r.y.detach(), r.mean,          r.var,         r.count,   autograd::companion_of(r.y),
        q.x.grad(),   q.weight.grad(), q.bias.grad(), q.w.grad()};
  };
  check_same_bits(run(Way::kOneOp), run(Way::kTwoOps));
}

TEST_CASE("norm relu conv2d: second gradients are those of the two ops") {
  manual_seed(4);
  const Problem p(kLayers[0]);
  const auto second = [&](Way way) {
    const Run r(p, way);
    const Tensors first = grad({sum(r.y * p.dy)}, p.leaves(), {.create_graph = true});
    return grad({sum(square(first[0])) + sum(first[1]) + sum(square(first[3]))}, p.leaves());
  };
  const Tensors one = second(Way::kOneOp), two = second(Way::kTwoOps);
  for (size_t i = 0; i < one.size(); ++i) {
    CAPTURE(i);
    CHECK(
        allclose(one[i], two[i], {.rtol = 1e-4, .atol = 1e-4 * amax(abs(two[i])).item<double>()}));
  }
}

TEST_CASE("norm relu conv2d: the normalised values are not kept") {
  const Problem p({"kept", {8, 64, 16, 16}, {64, 64, 3, 3}});
  const auto kept = [&](Way way) {
    const int64_t before = profile::memory_use(kCPU).in_use;
    const Run r(p, way);
    return profile::memory_use(kCPU).in_use - before;
  };
  kept(Way::kOneOp);  // what is kept for good
  kept(Way::kTwoOps);
  const int64_t values = 8 * 64 * 16 * 16 * 4;
  CHECK(kept(Way::kTwoOps) - kept(Way::kOneOp) == values);
}

TEST_CASE("norm relu conv2d: nothing is kept of filters that are trained") {
  manual_seed(12);
  const Tensor x = randn({8, 64, 16, 16}).contiguous(kChannelsLast).requires_grad_();
  const Tensor w = randn({64, 64, 3, 3}).contiguous(kChannelsLast).requires_grad_();
  const Tensor weight = ones({64}), bias = zeros({64}), mean = zeros({64}), var = ones({64});
  const auto run = [&] {
    return batch_norm_relu_conv2d(x, {weight, bias, mean, var}, w, {.training = true}, {.pad = 1});
  };
  const auto first = run().to_vector<float>();
  const int64_t before = profile::memory_use(kCPU).in_use;
  const auto again = run().to_vector<float>();
  CHECK(again == first);
  CHECK(profile::memory_use(kCPU).in_use == before);
  w.data<float>()[0] += 1;  // as finite differences do: no version changes
  CHECK(run().to_vector<float>() != first);
}

TEST_CASE(
    "norm relu conv2d: two ops where Winograd does not compute it, and direct gradients of a "
    "switch in between") {
  manual_seed(5);
  const Problem p(kLayers[0]);
  const auto of = [&](const Tensor& x, const Tensor& w) {
    return batch_norm_relu_conv2d(x, {p.weight, p.bias, zeros({16}), ones({16})}, w,
                                  {.training = true}, p.opt);
  };
  const Tensor x = p.x.detach().requires_grad_();
  CHECK(is_one_op(of(x, p.w)));
  CHECK(!is_one_op(of(x.contiguous(), p.w)));
  CHECK(!is_one_op(of(x, randn({16, 16, 1, 1}))));
  {
    const Autocast half(kCPU, kBF16);
    CHECK(!is_one_op(of(x, p.w)));
  }
  {
    const NoGrad off;
    CHECK(!is_one_op(of(x, p.w)));
  }
  const Run one(p, Way::kOneOp);
  Tensors got;
  {
    const ExactScope exact;
    got = one.all(p);
  }
  const Tensors want = Run(p, Way::kTwoOps).all(p);
  for (size_t i = 5; i < want.size(); ++i) {
    CAPTURE(std::string(kNames[i]));
    const double largest = amax(abs(want[i])).item<double>();
    CHECK(allclose(got[i], want[i], {.rtol = 0, .atol = 2e-5 * largest}));
  }
}

TEST_CASE("norm relu conv2d: only gradients that are wanted, in every combination") {
  manual_seed(7);
  const Problem p(kLayers[0]);
  const auto run = [&](Way way, int wanted) {
    p.ask_for_all();
    for (size_t i = 0; i < 4; ++i) p.leaves()[i].requires_grad_((wanted >> i & 1) != 0);
    const Run some(p, way, KeepNeeds{});
    some.y.backward(p.dy);
    std::vector<float> all;
    for (const Tensor& t : p.leaves()) {
      if (t.requires_grad())
        for (const float v : t.grad().to_vector<float>()) all.push_back(v);
    }
    return all;
  };
  for (int wanted = 1; wanted < 16; ++wanted) {
    CAPTURE(wanted);
    CHECK(run(Way::kOneOp, wanted) == run(Way::kTwoOps, wanted));
  }
}

TEST_CASE("norm relu conv2d: a frozen norm keeps nothing, so x may be written") {
  manual_seed(8);
  const Problem p(kLayers[0]);
  const auto gradient = [&](Way way) {
    const Tensor x = p.x.detach().clone(), w = p.w.detach().clone().requires_grad_();
    const Tensor mean = zeros({16}), var = ones({16}), weight = p.weight.detach(),
                 bias = p.bias.detach();
    const Tensor y =
        way == Way::kOneOp
            ? batch_norm_relu_conv2d(x, {weight, bias, mean, var}, w, {.training = true}, p.opt)
            : conv2d(batch_norm_relu(x, weight, bias, mean, var, {.training = true}), w, p.opt);
    x.add_(1.0);
    y.backward(p.dy);
    return w.grad().to_vector<float>();
  };
  CHECK(gradient(Way::kOneOp) == gradient(Way::kTwoOps));
}

TEST_CASE("norm relu conv2d: checkpoint, Recompute and a second backward pass have the same bits") {
  manual_seed(9);
  const Problem p(kLayers[0]);
  const Tensors want = Run(p, Way::kTwoOps).all(p);
  {
    const Recompute again;
    check_same_bits(Run(p, Way::kOneOp).all(p), want);
  }
  const Run twice(p, Way::kOneOp);
  twice.y.backward({.gradient = p.dy, .retain_graph = true});
  twice.y.backward(p.dy);
  CHECK(p.w.grad().to_vector<float>() == (want[8] * 2).to_vector<float>());
  for (const Tensor& t : p.leaves()) t.set_grad({});
  const Tensor mean = zeros({16}), var = ones({16});
  const Tensor y = checkpoint(
      [&](const Tensors& in) {
        return batch_norm_relu_conv2d(in[0], {p.weight, p.bias, mean, var}, p.w,
                                      {.training = true, .momentum = 0.3}, p.opt);
      },
      {p.x});
  y.backward(p.dy);
  CHECK(y.to_vector<float>() == want[0].to_vector<float>());
  CHECK(p.w.grad().to_vector<float>() == want[8].to_vector<float>());
  CHECK(p.x.grad().to_vector<float>() == want[5].to_vector<float>());
}

TEST_CASE("norm relu conv2d: gradients in another order of memory, and filters in rows") {
  manual_seed(10);
  Problem p(kLayers[0]);
  p.dy = p.dy.contiguous();
  p.w = p.w.contiguous();
  const Tensors got = Run(p, Way::kOneOp).all(p);
  check_same_bits(got, Run(p, Way::kTwoOps).all(p));
}

namespace {

struct Net final : nn::Module {
  nn::BatchNorm2d norm{*this, "norm", 16};
  nn::Conv2d conv{*this, "conv", 16, 24, {.kernel = 3, .pad = 1, .bias = false}};
  nn::Conv2d other{*this, "other", 8, 24, {.kernel = 3, .bias = false}};

  Net() { to(kChannelsLast); }
  Tensor forward(const Tensor& x) override { return conv(norm.relu(x)); }
  int64_t batches() const { return norm.num_batches_tracked.item<int64_t>(); }
};

}  // namespace

TEST_CASE("norm relu conv2d: layers find it, and errors name the layer that they are of") {
  manual_seed(6);
  Net net;
  const Tensor x = randn({4, 16, 8, 8}).contiguous(kChannelsLast);
  const Tensor of_eight = randn({4, 8, 8, 8}).contiguous(kChannelsLast);
  CHECK(is_one_op(net(x)));
  CHECK(net.batches() == 1);
  CHECK_THROWS_WITH_AS(net.other(net.norm.relu(x)), doctest::Contains("other: conv2d"), ShapeError);
  CHECK_THROWS_WITH_AS(static_cast<void>(net.norm.relu(of_eight)),
                       doctest::Contains("norm: batch_norm_relu"), ShapeError);
  const Tensor one_value = randn({1, 16, 1, 1}).contiguous(kChannelsLast);
  CHECK_THROWS_WITH_AS(net(one_value), doctest::Contains("norm: batch_norm_relu"), ShapeError);
  const Tensor values = net.norm.relu(x);
  CHECK(values.grad_fn() == "batch_norm_relu");
  net.eval();
  CHECK(!is_one_op(net(x)));
}

TEST_CASE("BatchNorm::relu: values that wait are those of the call, once, whoever asks and when") {
  manual_seed(11);
  Net net;
  const Tensor x = randn({4, 16, 8, 8}).contiguous(kChannelsLast);
  const nn::NormRelu kept = net.norm.relu(x), copy = kept;
  CHECK(kept.waits());
  CHECK(net.batches() == 0);
  {
    const NoGrad off;
    net.eval();
    CHECK(!kept.waits());  // a convolution would record nothing
    CHECK(Tensor(kept).requires_grad());
    net.train();
  }
  CHECK(net.batches() == 1);
  CHECK(Tensor(copy).shares_storage(kept));
  CHECK(net.batches() == 1);

  const nn::NormRelu refused = net.norm.relu(x);
  CHECK_THROWS_AS(net.other(nn::NormRelu(refused)), ShapeError);  // it takes 8 channels
  CHECK(Tensor(refused).requires_grad());
  CHECK(net.batches() == 2);
  const nn::NormRelu written = net.norm.relu(x);
  {
    const NoGrad off;
    net.norm.weight.mul_(2);
  }
  Tensor values;
  CHECK_THROWS_WITH_AS(values = written, doctest::Contains("weight was modified"), StateError);
  CHECK(net.batches() == 2);

  nn::NormRelu taken = net.norm.relu(x), same = taken;
  CHECK(is_one_op(net.conv(std::move(taken))));
  CHECK(net.batches() == 3);
  const Tensor want =
      batch_norm_relu(x, net.norm.weight, net.norm.bias, {}, {}, {.training = true});
  CHECK(Tensor(same).to_vector<float>() == want.to_vector<float>());
  CHECK(net.batches() == 3);
}
