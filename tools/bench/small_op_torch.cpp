// The same as small_op_lathe.cpp in LibTorch, for comparison. It is part of no build; built and run
// by compare_small_op.py.
#include <torch/torch.h>

#include <chrono>
#include <cstdio>
#include <functional>

using torch::Tensor;

namespace {

double microseconds(int calls, const std::function<void()>& f) {
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < calls; ++i) f();
  const std::chrono::duration<double, std::micro> elapsed =
      std::chrono::steady_clock::now() - start;
  return elapsed.count() / calls;
}

Tensor leaf(torch::IntArrayRef shape) { return (torch::randn(shape) * 0.1).requires_grad_(); }

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
  torch::set_num_threads(1);
  const Tensor a = leaf({16}), b = leaf({16});

  const Tensor w1 = leaf({8, 8}), w2 = leaf({8, 8}), w3 = leaf({1, 8}), points = leaf({4, 8});
  const auto grad_of_grad = [&] {
    const Tensor y =
        torch::matmul(torch::matmul(torch::matmul(points, w1.t()).tanh(), w2.t()).tanh(), w3.t());
    const Tensor slope = torch::autograd::grad({y.sum()}, {points}, {}, true, true)[0];
    torch::autograd::grad({slope.square().sum()}, {w1, w2, w3});
  };

  const Tensor table = leaf({27, 10}), hidden = leaf({30, 64}), bias = leaf({64}),
               out = leaf({64, 27});
  const Tensor context = torch::randint(0, 27, {32, 3}), next = torch::randint(0, 27, {32});
  std::vector<Tensor> parameters = {table, hidden, bias, out};
  const auto makemore = [&] {
    const Tensor in = torch::embedding(table, context).view({32, 30});
    const Tensor logits = torch::matmul((torch::matmul(in, hidden) + bias).tanh(), out);
    for (Tensor& p : parameters) p.mutable_grad() = Tensor();
    torch::nn::functional::cross_entropy(logits, next).backward();
    const torch::NoGradGuard off;
    for (Tensor& p : parameters) p -= 0.01 * p.grad();
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
