// Chapter 10: what many GPUs compute is an average of gradients; and one step as a CUDA graph.
#include <lathe/core/capture/cuda_graph.h>
#include <lathe/core/copy.h>
#include <lathe/lathe.h>

#include <iostream>
#include <string>

namespace nn = lathe::nn;
using lathe::Tensor;

/// dloss/dw of mean squared error for the rows first … last-1 of a batch. Whole numbers: exact.
static Tensor gradient(const Tensor& x, const Tensor& y, const Tensor& w, int64_t first,
                       int64_t last) {
  const Tensor error = lathe::matmul(x.slice(0, first, last), w) - y.slice(0, first, last);
  return lathe::grad({(error * error).mean()}, {w})[0];
}

static void print(const char* name, const Tensor& t) {
  std::cout << name;
  for (const double value : t.to_vector<double>()) std::cout << ' ' << value;
  std::cout << '\n';
}

/// Two equal nets on a GPU: one takes plain steps, the other records one step and launches it.
static void one_step_as_a_graph() {
  const lathe::Device gpu("cuda");
  const Tensor x = lathe::ones({8, 4}).to(gpu), y = lathe::zeros({8, 1}).to(gpu);
  Tensor weights[2];
  for (const bool as_graph : {false, true}) {
    lathe::manual_seed(3);
    nn::Linear net(4, 1);
    net.to(gpu);
    lathe::optim::SGD opt(net.parameters(), {.lr = 0.0625, .momentum = 0.9});
    opt.set_capturable();
    const auto step = [&] {
      opt.zero_grad();
      (net(x) - y).square().mean().backward();
      opt.step();
    };
    step();  // makes the memory that stays
    lathe::cuda::Graph graph(gpu);
    if (as_graph) graph.capture(step);
    const uint64_t before = lathe::cuda::counters().launches;
    for (int i = 0; i < 10; ++i) as_graph ? graph.launch() : step();
    const uint64_t launches = (lathe::cuda::counters().launches - before) / 10;
    std::cout << (as_graph ? "gpu: as a graph" : "gpu: step by step") << ": launches per step "
              << (launches > 1 ? "several" : std::to_string(launches)) << '\n';
    weights[as_graph] = net.weight.detach().cpu();
  }
  std::cout << "gpu: largest difference of the weights "
            << (weights[0] - weights[1]).abs().amax().item<float>() << '\n';
}

int main() {
  const Tensor x = lathe::tensor({{1., 2.}, {3., 0.}, {0., 1.}, {2., 2.}}, lathe::kF64);
  const Tensor y = lathe::tensor({{1.}, {2.}, {3.}, {0.}}, lathe::kF64);
  const Tensor w = lathe::tensor({{2.}, {-1.}}, lathe::kF64);
  w.requires_grad_();
  print("whole batch of 4:             ", gradient(x, y, w, 0, 4));
  const Tensor a = gradient(x, y, w, 0, 2), b = gradient(x, y, w, 2, 4);
  print("GPU 0, samples 0 and 1:       ", a);
  print("GPU 1, samples 2 and 3:       ", b);
  print("their average:                ", (a + b) / 2);
  const Tensor c = gradient(x, y, w, 0, 1), d = gradient(x, y, w, 1, 4);
  print("shards of 1 and 3, averaged:  ", (c + d) / 2);
  print("weighted by 1/4 and 3/4:      ", (c + d * 3) / 4);

  // Batch norm looks at its whole batch: shards have statistics of their own.
  const auto norm = [](const Tensor& t) {
    return lathe::batch_norm(t, {}, {}, {}, {}, {.training = true, .eps = 0});
  };
  print("batch norm of the whole batch:", norm(x).slice(1, 0, 1));
  print("of two shards:                ",
        lathe::cat({norm(x.slice(0, 0, 2)), norm(x.slice(0, 2, 4))}, 0).slice(1, 0, 1));
  if (lathe::cuda_is_available())
    one_step_as_a_graph();
  else
    std::cerr << "No CUDA device: no lines with gpu:. Chapter 10 says how to emulate one.\n";
}
