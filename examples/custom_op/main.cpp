// Checks swiglu, an op with kernels of this program's own, on every device that there is: its
// gradient and the gradient of that against differences, its values against the same made of ops.
//
//   custom_op [ELEMENTS]
#include "swiglu.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>

using lathe::Tensor, lathe::Tensors;

/// The same made of ops.
Tensor from_ops(const Tensor& gate, const Tensor& value) { return gate * gate.sigmoid() * value; }

/// Milliseconds of one forward and backward pass, the best of five.
template <class F>
double milliseconds(F f, const Tensor& gate, const Tensor& value) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto began = std::chrono::steady_clock::now();
    f(gate, value).sum().backward();
    if (gate.is_cuda()) lathe::cuda::synchronize();
    const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - began;
    best = std::min(best, took.count());
  }
  return best;
}

bool check(lathe::Device device, int64_t elements) {
  const lathe::TensorOptions f64{.dtype = lathe::kF64, .device = device};
  const auto squared = [](const Tensors& in) { return swiglu(in[0], in[1]).square(); };
  // A transposed gate: the op must not take for granted how its inputs lie in memory.
  const Tensors inputs = {lathe::randn({4, 3}, f64).t(), lathe::randn({3, 4}, f64)};
  const lathe::GradReport first = lathe::gradcheck(squared, inputs);
  const lathe::GradReport second = lathe::gradgradcheck(squared, inputs);
  std::cout << device << ": gradient " << (first ? "right" : first.text) << ", second gradient "
            << (second ? "right" : second.text);

  bool close = true;
  for (const auto& [dtype, tolerance] : {std::pair{lathe::kF32, 1e-6}, {lathe::kF16, 4e-3}}) {
    const Tensor gate = lathe::randn({1000}, {.device = device}).to(dtype);
    const Tensor value = lathe::randn({1000}, {.device = device}).to(dtype);
    const Tensor want = from_ops(gate.to(lathe::kF64), value.to(lathe::kF64));
    const Tensor error = (swiglu(gate, value).to(lathe::kF64) - want).abs() / (want.abs() + 1);
    close = close && error.max().item<double>() < tolerance;
  }
  std::cout << ", values " << (close ? "right" : "WRONG") << '\n';

  const Tensor gate = lathe::randn({elements}, {.device = device, .requires_grad = true});
  const Tensor value = lathe::randn({elements}, {.device = device, .requires_grad = true});
  const double fused = milliseconds(swiglu, gate, value);
  const double composed = milliseconds(from_ops, gate, value);
  std::cout << device << ": forward and backward of " << elements << " elements take " << fused
            << " ms, made of ops " << composed << " ms\n";
  return first && second && close;
}

int main(int argc, char** argv) {
  const int64_t elements = argc > 1 ? std::atoll(argv[1]) : 1 << 20;
  lathe::manual_seed(1);
  bool right = check("cpu", elements);
  if (lathe::cuda_is_available()) right = check("cuda", elements) && right;
  std::cout << (right ? "all right" : "WRONG") << '\n';
  return right ? 0 : 1;
}
