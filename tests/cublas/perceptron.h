// What the tests of perceptrons share: one with all its gradients, on the GPU against the CPU.
#pragma once

#include <string>

#include "../emulated_count.h"
#include "../ops/compare.h"
#include "fixture.h"
#include "lathe/ops/mlp.h"

namespace lathe::test {

/// A two-layer perceptron with all its gradients, on the GPU against the CPU.
struct Perceptron {
  Perceptron(int64_t rows, int64_t in, int64_t hidden, int64_t out, Activation function,
             DType dtype = kF32)
      : activation(function) {
    for (const Shape& shape : {Shape{rows, in}, {hidden, in}, {hidden}, {out, hidden}, {out}}) {
      // Small numbers: half types round sums, not differences of large ones.
      inputs.push_back(rand(shape, {.dtype = dtype}) - 0.5);
    }
    dy = rand({rows, out}, {.dtype = dtype}) - 0.5;
  }

  Tensors outcome(Device device) const {
    Tensors in;
    for (const Tensor& t : inputs) {
      in.push_back(t.to(device).detach());
      in.back().requires_grad_();
    }
    const Tensor y = mlp(in[0], {{in[1], in[2]}, {in[3], in[4]}}, {.activation = activation});
    y.backward(dy.to(device));
    Tensors out{y.detach()};
    for (const Tensor& t : in) out.push_back(t.grad());
    return out;
  }

  void check() const {
    const Tensors want = outcome(kCPU), got = outcome(kGpu);
    for (size_t i = 0; i < want.size(); ++i) {
      const std::string text = difference(got[i].cpu(), want[i], tolerance());
      CHECK_MESSAGE(text.empty(), "result ", i, ": ", text);
    }
  }

  /// Sums in f32 are in another order on a GPU. Of its tanh cuBLAS does not say how exact it is: the
  /// GPU's own instruction is off by 2^-11. The emulated cuBLAS has the host's.
  double tolerance() const {
    if (dy.dtype() != kF32) return tolerance_of(dy.dtype());
    const bool approximates = activation == Activation::kGeluTanh && !kEmulated;
    return approximates ? 0x1p-11 : kDeviceTolerance;
  }

  Activation activation;
  Tensors inputs;
  Tensor dy;
};

}  // namespace lathe::test
