// Cost of a small op: c = a + b of 16 floats that require grad, c dropped at once. Built and run by
// compare_small_op.py.
#include <lathe/lathe.h>

#include <chrono>
#include <cstdio>

int main() {
  const lathe::Tensor a = lathe::randn({16}, {.requires_grad = true});
  const lathe::Tensor b = lathe::randn({16}, {.requires_grad = true});
  constexpr int kCalls = 200'000;
  for (int window = 0; window < 5; ++window) {
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < kCalls; ++i) lathe::Tensor c = a + b;
    const std::chrono::duration<double, std::nano> elapsed =
        std::chrono::steady_clock::now() - start;
    std::printf("%.1f\n", elapsed.count() / kCalls);
  }
}
