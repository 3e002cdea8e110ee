// Costs of small work, where bookkeeping is all: one line per window, with microseconds for each of
// the names. small_op_torch.cpp is the same in LibTorch; compare_small_op.py builds and runs both.
//   add            c = a + b of 16 floats that require grad; c is dropped at once
//   chain          forward and backward of 1,000 such ops in a row, per op
//   grad of grad   of a 3-layer MLP of width 8 at 4 points
//   makemore       a step of a character model: embedding, tanh layer, cross-entropy, SGD
//   resnet graph   forward and backward of ResNet-18's ops on one element, per op
#include <lathe/lathe.h>

#include <chrono>
#include <cstdio>
#include <functional>

using lathe::Tensor;

namespace {

double microseconds(int calls, const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) f();
  const std::chrono::duration<double, std::micro> elapsed =
      std::chrono::steady_clock::now() - start;
  return elapsed.count() / calls;
}

Tensor leaf(const lathe::Shape& shape) { return (lathe::randn(shape) * 0.1).requires_grad_(); }

/// 8 blocks of two branches that meet again, 10 ops each, as in ResNet-18.
Tensor residual_graph(const Tensor& x, const Tensor& w) {
  Tensor h = x;
  for (int block = 0; block < 8; ++block) {
    const Tensor a = ((h * w + w) * w).relu();
    const Tensor b = (a * w + w) * w;
    h = (h * w + b).relu();
  }
  return h;
}

}  // namespace

int main() {
  lathe::set_num_threads(1);
  const Tensor a = leaf({16}), b = leaf({16});

  const Tensor w1 = leaf({8, 8}), w2 = leaf({8, 8}), w3 = leaf({1, 8}), points = leaf({4, 8});
  const auto grad_of_grad = [&] {
    const Tensor y =
        lathe::matmul(lathe::matmul(lathe::matmul(points, w1.t()).tanh(), w2.t()).tanh(), w3.t());
    const Tensor slope = lathe::grad({y.sum()}, {points}, {.create_graph = true})[0];
    lathe::grad({slope.square().sum()}, {w1, w2, w3});
  };

  const Tensor table = leaf({27, 10}), hidden = leaf({30, 64}), bias = leaf({64}),
               out = leaf({64, 27});
  const Tensor context = lathe::randint(0, 27, {32, 3}), next = lathe::randint(0, 27, {32});
  const lathe::Tensors parameters = {table, hidden, bias, out};
  const auto makemore = [&] {
    const Tensor in = lathe::embedding(table, context).view({32, 30});
    const Tensor logits = lathe::matmul((lathe::matmul(in, hidden) + bias).tanh(), out);
    for (const Tensor& p : parameters) p.set_grad({});
    lathe::cross_entropy(logits, next).backward();
    const lathe::NoGrad off;
    for (const Tensor& p : parameters) p -= 0.01 * p.grad();
  };

  const Tensor one = leaf({1}), weight = leaf({1});
  for (int window = 0; window < 5; ++window) {
    const double add = microseconds(200'000, [&] { Tensor c = a + b; });
    const double chain = microseconds(100, [&] {
      Tensor c = a;
      for (int i = 0; i < 1000; ++i) c = c + b;
      c.sum().backward();
    });
    const double second = microseconds(1000, grad_of_grad);
    const double step = microseconds(1000, makemore);
    const double graph = microseconds(1000, [&] { residual_graph(one, weight).backward(); });
    std::printf("%.4f %.4f %.4f %.4f %.4f\n", add, chain / 1000, second, step, graph / 80);
  }
}
