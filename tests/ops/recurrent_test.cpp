// lstm, gru, rnn_tanh and rnn_relu against their formulas, number by number. golden_pt2/ has
// PyTorch's numbers.
#include "lathe/ops/recurrent.h"

#include <algorithm>
#include <cmath>

#include "compare.h"
#include "lathe/autograd/autocast.h"
#include "lathe/autograd/checkpoint.h"
#include "lathe/autograd/engine.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/saved_tensor_hooks.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/random.h"
#include "lathe/ops/rearrange.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"

using namespace lathe;
using namespace lathe::test;
using doctest::Contains;

namespace {

using In = const Tensors&;

double sigmoid_of(double x) { return 1 / (1 + std::exp(-x)); }

/// A layer of one unit with one input: w_x, w_h and biases are a column of numbers each.
RecurrentLayer one_unit(const std::vector<double>& w_x, const std::vector<double>& w_h,
                        const std::vector<double>& b) {
  const auto column = [](const std::vector<double>& v) { return tensor(v, kF64).unsqueeze(1); };
  return {column(w_x), column(w_h), tensor(b, kF64), tensor(b, kF64)};
}

const std::vector<double> kWx = {0.3, -0.7, 1.1, 0.2}, kWh = {-0.4, 0.6, 0.5, -0.9};
const std::vector<double> kB = {0.1, -0.2, 0.05, 0.3};
const std::vector<double> kX = {0.5, -1.5, 2.0};

std::vector<RecurrentLayer> random_layers(int64_t count, int64_t gates, int64_t in, int64_t size,
                                          int64_t later_in) {
  std::vector<RecurrentLayer> layers;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t width = i < count / 2 ? in : later_in;
    layers.push_back({f64({gates * size, width}), f64({gates * size, size}), f64({gates * size}),
                      f64({gates * size})});
  }
  return layers;
}

}  // namespace

TEST_CASE("recurrent: one unit of each op, step by step") {
  double h = 0.25, c = -0.5;
  std::vector<double> states;
  for (const double x : kX) {
    const auto gate = [&](size_t i) { return kWx[i] * x + kWh[i] * h + 2 * kB[i]; };
    c = sigmoid_of(gate(1)) * c + sigmoid_of(gate(0)) * std::tanh(gate(2));
    h = sigmoid_of(gate(3)) * std::tanh(c);
    states.push_back(h);
  }
  const Tensor x = tensor(kX, kF64).view({3, 1, 1});
  const Tensor start = full({1, 1, 1}, 0.25, {.dtype = kF64});
  const RecurrentResult r =
      lstm(x, start, full({1, 1, 1}, -0.5, {.dtype = kF64}), {one_unit(kWx, kWh, kB)});
  CHECK(difference(r.y, states, 1e-15) == "");
  CHECK(difference(r.h, {h}, 1e-15) == "");
  CHECK(difference(r.c, {c}, 1e-15) == "");

  h = 0.25;
  states.clear();
  for (const double in : kX) {
    const auto sum = [&](size_t i) { return kWx[i] * in + kWh[i] * h + 2 * kB[i]; };
    const double reset = sigmoid_of(sum(0)), z = sigmoid_of(sum(1));
    const double n = std::tanh(kWx[2] * in + kB[2] + reset * (kWh[2] * h + kB[2]));
    h = (1 - z) * n + z * h;
    states.push_back(h);
  }
  const auto three = [](std::vector<double> v) { return v.resize(3), v; };
  const RecurrentResult g = gru(x, start, {one_unit(three(kWx), three(kWh), three(kB))});
  CHECK(difference(g.y, states, 1e-15) == "");
  CHECK(difference(g.h, {h}, 1e-15) == "");

  const auto one = [](std::vector<double> v) { return v.resize(1), v; };
  for (const bool relus : {false, true}) {
    CAPTURE(relus);
    h = 0.25;
    states.clear();
    for (const double in : kX) {
      const double sum = kWx[0] * in + kWh[0] * h + 2 * kB[0];
      h = relus ? std::max(sum, 0.0) : std::tanh(sum);
      states.push_back(h);
    }
    const auto layer = one_unit(one(kWx), one(kWh), one(kB));
    const RecurrentResult e = relus ? rnn_relu(x, start, {layer}) : rnn_tanh(x, start, {layer});
    CHECK(difference(e.y, states, 1e-15) == "");
    CHECK(difference(e.h, {h}, 1e-15) == "");
  }
}

TEST_CASE("recurrent: the backward direction is the forward one of the reversed sequence") {
  manual_seed(4);
  const Tensor x = f64({5, 2, 3}), h = f64({2, 2, 4});
  const auto layers = random_layers(2, 3, 3, 4, 3);
  const RecurrentResult both = gru(x, h, layers, {.bidirectional = true});
  CHECK(both.y.shape() == Shape{5, 2, 8});
  const RecurrentResult back = gru(flip(x, {0}), narrow(h, 0, 1, 1), {layers[1]});
  CHECK(difference(narrow(both.y, 2, 4, 4), flip(back.y, {0}).contiguous().to_vector<double>(),
                   1e-15) == "");
  CHECK(difference(both.h[1], back.h[0].to_vector<double>(), 1e-15) == "");
  const Tensor batches =
      gru(transpose(x, 0, 1), h, layers, {.bidirectional = true, .batch_first = true}).y;
  CHECK(difference(transpose(batches, 0, 1), both.y.to_vector<double>(), 0) == "");
}

TEST_CASE("recurrent: gradients agree with finite differences, twice") {
  manual_seed(5);
  // clang-format off
  const GradientCase cases[] = {
      {"lstm", [](In in) { const auto r = lstm(in[0], in[1], in[2], {{in[3], in[4], in[5], in[6]}}); return Tensor(r.y.sum() + r.c * r.h); }, {f64({2, 2, 2}), f64({1, 2, 1}), f64({1, 2, 1}), f64({4, 2}), f64({4, 1}), f64({4}), f64({4})}},
      {"lstm projected", [](In in) { return lstm(in[0], in[1], in[2], {{in[3], in[4], {}, {}, in[5]}}).y; }, {f64({2, 1, 2}), f64({1, 1, 1}), f64({1, 1, 2}), f64({8, 2}), f64({8, 1}), f64({1, 2})}},
      {"rnn_tanh", [](In in) { return rnn_tanh(in[0], in[1], {{in[2], in[3], in[4], in[5]}}).y; }, {f64({2, 2, 2}), f64({1, 2, 1}), f64({1, 2}), f64({1, 1}), f64({1}), f64({1})}},
      {"rnn_relu", [](In in) { return rnn_relu(in[0], in[1], {{in[2], in[3], in[4], in[5]}}).y; }, {f64({2, 2, 2}), f64({1, 2, 1}), f64({1, 2}), f64({1, 1}), f64({1}), f64({1})}},
      {"gru", [](In in) { return gru(in[0], in[1], {{in[2], in[3], in[4], in[5]}}).y; }, {f64({2, 2, 2}), f64({1, 2, 1}), f64({3, 2}), f64({3, 1}), f64({3}), f64({3})}},
  };
  // clang-format on
  for (const GradientCase& c : cases) check_gradients(c);
}

// A projection by the identity changes nothing, and takes the way of single ops.
TEST_CASE("recurrent: lstm has the gradients of its single ops") {
  manual_seed(6);
  const Tensor x = f64({5, 3, 4}), h = f64({4, 3, 6}), c = f64({4, 3, 6});
  const auto layers = random_layers(4, 4, 4, 6, 12);
  auto projected = layers;
  for (RecurrentLayer& layer : projected) layer.w_out = eye(6, {.dtype = kF64});
  Tensors leaves{x, h, c};
  for (const RecurrentLayer& l : layers) leaves.insert(leaves.end(), {l.w_x, l.w_h, l.b_x, l.b_h});
  for (Tensor& leaf : leaves) leaf.requires_grad_();
  const Tensor dy = f64({5, 3, 12}), dh = f64({4, 3, 6}), dc = f64({4, 3, 6});
  const auto gradients = [&](const std::vector<RecurrentLayer>& of, bool ends) {
    const RecurrentResult r = lstm(x, h, c, of, {.bidirectional = true});
    const Tensor loss = sum(mul(r.y, dy));
    return grad({ends ? add(loss, add(sum(mul(r.h, dh)), sum(mul(r.c, dc)))) : loss}, leaves);
  };
  for (const bool ends : {true, false}) {
    CAPTURE(ends);
    const Tensors got = gradients(layers, ends), want = gradients(projected, ends);
    for (size_t i = 0; i < want.size(); ++i) {
      CAPTURE(i);
      CHECK(difference(got[i], want[i].contiguous(), 1e-12) == "");
    }
  }
}

// A watcher sees single ops, and so takes their way. 19 sequences are three groups.
TEST_CASE(
    "recurrent: the CPU's kernels compute what the single ops do, for any number of threads") {
  manual_seed(8);
  struct Watch : profile::Watcher {};
  const int before = num_threads();
  for (const DType dtype : {kF64, kF32}) {
    const double tolerance = dtype == kF64 ? 1e-13 : 1e-5;
    for (const int64_t N : {1, 8, 19}) {
      for (const int64_t gates : {3, 4}) {
        CAPTURE(dtype);
        CAPTURE(N);
        CAPTURE(gates);
        const auto drawn = [&](const Shape& shape) { return f64(shape).to(dtype); };
        Tensors leaves{drawn({6, N, 5}),      drawn({1, N, 7}),      drawn({1, N, 7}),
                       drawn({gates * 7, 5}), drawn({gates * 7, 7}), drawn({gates * 7}),
                       drawn({gates * 7})};
        for (Tensor& leaf : leaves) leaf.requires_grad_();
        const Tensor dy = drawn({6, N, 7}), dh = drawn({1, N, 7});
        const auto run = [&](int threads) {
          set_num_threads(threads);
          const RecurrentLayer layer{leaves[3], leaves[4], leaves[5], leaves[6]};
          const RecurrentResult r = gates == 4 ? lstm(leaves[0], leaves[1], leaves[2], {layer})
                                               : gru(leaves[0], leaves[1], {layer});
          Tensor loss = add(sum(mul(r.y, dy)), sum(mul(r.h, dh)));
          Tensors inputs = leaves;
          if (gates == 4) loss = add(loss, sum(mul(r.c, dh)));
          if (gates == 3) inputs.erase(inputs.begin() + 2);
          Tensors all = grad({loss}, inputs);
          all.insert(all.end(), {r.y.detach(), r.h.detach()});
          return all;
        };
        const Tensors one = run(1), three = run(3);
        Tensors want;
        {
          const Watch watch;
          want = run(1);
        }
        for (size_t i = 0; i < want.size(); ++i) {
          CAPTURE(i);
          CHECK(difference(one[i].to(kF64), want[i].to(kF64).contiguous(), tolerance) == "");
          CHECK(equal(one[i], three[i]));
        }
      }
    }
  }
  set_num_threads(before);
}

TEST_CASE("recurrent: hooks get what lstm saves of every step") {
  int64_t numbers = 0;
  const SavedTensorHooks hooks([&](const Tensor& t) { return numbers += t.numel(), t; },
                               [](const Tensor& t) { return t; });
  const RecurrentLayer layer{f64({8, 3}).requires_grad_(), f64({8, 2}).requires_grad_()};
  const Tensor state = f64({1, 1, 2});
  const Tensor y = lstm(f64({16, 1, 3}), state, state, {layer}).y;
  CHECK(numbers >= 16 * (4 + 1 + 1) * 2);  // the gates, c and h
  CHECK(grad({sum(y)}, {layer.w_h})[0].defined());
}

TEST_CASE(
    "recurrent: hooks may return other strides, and a bias may change before the backward pass") {
  manual_seed(9);
  const Tensor x = f64({4, 3, 2}), h = f64({1, 3, 5}), c = f64({1, 3, 5});
  for (const int64_t gates : {3, 4}) {
    CAPTURE(gates);
    const RecurrentLayer layer{f64({gates * 5, 2}).requires_grad_(),
                               f64({gates * 5, 5}).requires_grad_(), f64({gates * 5}),
                               f64({gates * 5}).requires_grad_()};
    const auto result = [&] {
      return gates == 4 ? lstm(x, h, c, {layer}).y : gru(x, h, {layer}).y;
    };
    const auto gradients = [&](const Tensor& y) {
      return grad({sum(square(y))}, {layer.w_x, layer.w_h});
    };
    const Tensors want = gradients(result());
    Tensors got;
    {
      const SavedTensorHooks hooks(
          [](const Tensor& t) { return t.ndim() < 2 ? t : transpose(t, 0, -1).contiguous(); },
          [](const Tensor& t) { return t.ndim() < 2 ? t : transpose(t, 0, -1); });
      got = gradients(result());
    }
    const Tensor y = result();
    {
      const NoGrad off;
      layer.b_h.add_(1);
    }
    const Tensors after = gradients(y);
    for (size_t i = 0; i < want.size(); ++i) {
      CAPTURE(i);
      CHECK(difference(got[i], want[i].contiguous(), 1e-12) == "");
      CHECK(difference(after[i], want[i].contiguous(), 1e-12) == "");
    }
  }
}

TEST_CASE("recurrent: the same states in InferenceMode, gradients again and in checkpoints") {
  manual_seed(10);
  const Tensor x = f64({4, 9, 3}).requires_grad_(), one = f64({1, 1, 5});
  const Tensor state = one.expand({1, 9, 5});  // of all sequences
  for (const int64_t gates : {3, 4}) {
    CAPTURE(gates);
    const RecurrentLayer layer{f64({gates * 5, 3}).requires_grad_(), f64({gates * 5, 5}),
                               f64({gates * 5}), f64({gates * 5})};
    const auto states = [&](const Tensor& of, const Tensor& first) {
      return gates == 4 ? lstm(of, first, first, {layer}).y : gru(of, first, {layer}).y;
    };
    const Tensor y = states(x, state), loss = sum(square(y));
    CHECK(equal(states(x, state.contiguous()), y));
    {
      const InferenceMode on;
      CHECK(equal(states(x, state), y));
    }
    const Tensors leaves{x, layer.w_x};
    const Tensors want = grad({loss}, leaves, {.retain_graph = true}), again = grad({loss}, leaves);
    const Tensor kept = checkpoint([&](const Tensors& in) { return states(in[0], state); }, {x});
    const Tensors by_checkpoint = grad({sum(square(kept))}, leaves);
    for (size_t i = 0; i < want.size(); ++i) {
      CAPTURE(i);
      CHECK(equal(again[i], want[i]));
      CHECK(equal(by_checkpoint[i], want[i]));
    }
  }
}

TEST_CASE("recurrent: f16 rounds once, after computing in f32") {
  manual_seed(12);
  for (const int64_t gates : {3, 4}) {
    CAPTURE(gates);
    const auto half = [](const Shape& shape) { return f64(shape).to(kF16); };
    const Tensor x = half({6, 2, 3}), h = half({1, 2, 4});
    const RecurrentLayer layer{half({gates * 4, 3}), half({gates * 4, 4}), half({gates * 4}),
                               half({gates * 4})};
    const auto wide = [](const Tensor& t) { return t.to(kF64); };
    const RecurrentLayer exact{wide(layer.w_x), wide(layer.w_h), wide(layer.b_x), wide(layer.b_h)};
    const Tensor y = gates == 4 ? lstm(x, h, h, {layer}).y : gru(x, h, {layer}).y;
    const Tensor want =
        gates == 4 ? lstm(wide(x), wide(h), wide(h), {exact}).y : gru(wide(x), wide(h), {exact}).y;
    CHECK(y.dtype() == kF16);
    // The products with x are rounded to f16, and so is y: states up to 1, rounded to 2^-11 of them.
    CHECK(difference(wide(y), want, 4e-3) == "");
  }
}

TEST_CASE("recurrent: under autocast lstm computes in the half type, with gradients in f32") {
  manual_seed(7);
  const auto f32 = [](const Shape& shape) { return f64(shape).to(kF32); };
  const Tensor x = f32({4, 2, 3}), h = f32({1, 2, 5}), c = f32({1, 2, 5});
  const RecurrentLayer layer{f32({20, 3}).requires_grad_(), f32({20, 5}).requires_grad_(),
                             f32({20}).requires_grad_(), f32({20}).requires_grad_()};
  const auto gradients = [&](bool halves) {
    const Autocast scope(kCPU, kBF16, halves);
    const Tensor y = lstm(x, h, c, {layer}).y;
    CHECK(y.dtype() == (halves ? kBF16 : kF32));
    return grad({sum(square(y.to(kF32)))}, {layer.w_x, layer.w_h, layer.b_x, layer.b_h});
  };
  const Tensors got = gradients(true), want = gradients(false);
  for (size_t i = 0; i < want.size(); ++i) {
    CHECK(got[i].dtype() == kF32);
    CHECK(difference(got[i], want[i].to(kF64), 3e-2) == "");  // bf16 rounds at 2^-9
  }
}

TEST_CASE("recurrent: states and layers that do not fit are named") {
  const Tensor x = zeros({3, 2, 4}), h = zeros({1, 2, 5});
  const RecurrentLayer layer{zeros({15, 4}), zeros({15, 5})};
  CHECK_THROWS_WITH_AS(gru(zeros({3, 2, 4}, {.dtype = kI64}), h, {layer}), Contains("gru: "),
                       DTypeError);
  CHECK_THROWS_WITH_AS(gru(x, h, {layer, layer}),
                       Contains("has 2 layers and directions, 1 directions, and a state of 1"),
                       ValueError);
  CHECK_THROWS_WITH_AS(gru(x, zeros({1, 3, 5}), {layer}), Contains("a state for each sequence"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(gru(zeros({0, 2, 4}), h, {layer}), Contains("one step at least"),
                       ShapeError);
  CHECK_THROWS_WITH_AS(lstm(x, h, {}, {layer}), Contains("needs a cell state"), ShapeError);
  const RecurrentLayer four{zeros({20, 4}), zeros({20, 5})};
  const char* const misfit = "the cell state does not fit";
  CHECK_THROWS_WITH_AS(lstm(x, h, zeros({1, 1, 5}), {four}), Contains(misfit), ShapeError);
  CHECK_THROWS_WITH_AS(lstm(x, h, zeros({1, 2, 1}), {four}), Contains(misfit), ShapeError);
  CHECK_THROWS_WITH_AS(lstm(x, h, h.to(kF16), {four}), Contains("differ in dtype"), DTypeError);
}
