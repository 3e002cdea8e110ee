// The same as small_op_lathe.cpp in LibTorch, for comparison. It is part of no build; built and run
// by compare_small_op.py.
#include <torch/torch.h>

#include <chrono>
#include <cstdio>

int main() {
  torch::set_num_threads(1);
  const torch::Tensor a = torch::randn({16}, torch::requires_grad());
  const torch::Tensor b = torch::randn({16}, torch::requires_grad());
  constexpr int kCalls = 200'000;
  for (int window = 0; window < 5; ++window) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) torch::Tensor c = a + b;
    const std::chrono::duration<double, std::nano> elapsed =
        std::chrono::steady_clock::now() - start;
    std::printf("%.1f\n", elapsed.count() / kCalls);
  }
}
