// Activations in the epilogues of cuBLASLt, over the emulated one: which epilogue runs, how many
// kernels that saves, and what takes its place where cuBLAS has none.
#include "lathe/ops/mlp.h"

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "../cuda_case.h"
#include "../ops/compare.h"
#include "../same_memory.h"
#include "fixture.h"
#include "lathe/core/cuda.h"
#include "lathe/core/math_mode.h"
#include "lathe/nn/activation.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/mlp.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/unary.h"

using namespace lathe;
using namespace lathe::test;
using emulation::cublas_probe;

namespace {

double tolerance(DType dtype) { return dtype == kF32 ? kDeviceTolerance : tolerance_of(dtype); }

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
      const std::string text = difference(got[i].cpu(), want[i], tolerance(dy.dtype()));
      CHECK_MESSAGE(text.empty(), "result ", i, ": ", text);
    }
  }

  Activation activation;
  Tensors inputs;
  Tensor dy;
};

/// cuBLAS's products and our own kernels in f().
struct Work {
  uint64_t products, launches;
  bool operator==(const Work&) const = default;
};
template <class F>
Work work_of(F f) {
  const uint64_t products = cublas_probe().products, launches = cuda::counters().launches;
  f();
  return {cublas_probe().products - products, cuda::counters().launches - launches};
}

cublasLtEpilogue_t epilogue_of_layer(const Tensor& x, const Tensor& w, const Tensor& bias,
                                     Activation activation, bool keep) {
  cuda::linear_activated(x, w, bias, activation, keep);
  return cublas_probe().epilogue;
}

}  // namespace

TEST_CASE("mlp: activations and their gradients through cuBLAS agree with the CPU") {
  Fixture f;
  for (const Activation a :
       {Activation::kRelu, Activation::kFastRelu, Activation::kGelu, Activation::kGeluTanh}) {
    for (const DType dtype : {kF32, kF16, kBF16, kF64}) Perceptron(5, 7, 9, 3, a, dtype).check();
    Perceptron(1, 8, 130, 4, a).check();  // bits of more than 128 rows
    Perceptron(3, 1, 1, 1, a).check();
    Perceptron(0, 4, 3, 2, a).check();
  }
}

TEST_CASE("mlp: each layer asks for the epilogue that does its work") {
  Fixture f;
  const Tensor x = rand({3, 8}).to(kGpu), w = rand({5, 8}).to(kGpu), bias = rand({5}).to(kGpu);
  constexpr auto kRelu = Activation::kFastRelu, kTanh = Activation::kGeluTanh;
  CHECK(epilogue_of_layer(x, w, bias, kRelu, true) == CUBLASLT_EPILOGUE_RELU_AUX_BIAS);
  CHECK(epilogue_of_layer(x, w, bias, kRelu, false) == CUBLASLT_EPILOGUE_RELU_BIAS);
  CHECK(epilogue_of_layer(x, w, {}, kRelu, true) == CUBLASLT_EPILOGUE_RELU_AUX);
  CHECK(epilogue_of_layer(x, w, {}, kRelu, false) == CUBLASLT_EPILOGUE_RELU);
  CHECK(epilogue_of_layer(x, w, bias, kTanh, true) == CUBLASLT_EPILOGUE_GELU_AUX_BIAS);
  CHECK(epilogue_of_layer(x, w, bias, kTanh, false) == CUBLASLT_EPILOGUE_GELU_BIAS);
  CHECK(epilogue_of_layer(x, w, {}, kTanh, true) == CUBLASLT_EPILOGUE_GELU_AUX);
  CHECK(epilogue_of_layer(x, w, {}, kTanh, false) == CUBLASLT_EPILOGUE_GELU);
  // cuBLAS's gelu is the approximation, and its relu may drop a NaN: these two stay apart.
  CHECK(epilogue_of_layer(x, w, bias, Activation::kRelu, true) == CUBLASLT_EPILOGUE_BIAS);
  CHECK(epilogue_of_layer(x, w, bias, Activation::kGelu, true) == CUBLASLT_EPILOGUE_BIAS);

  const Tensor du = rand({3, 2}).to(kGpu), above = rand({2, 5}).to(kGpu);
  const auto gradient = [&](Activation activation, bool want_db) {
    const ActivatedLinear layer = cuda::linear_activated(x, w, bias, activation, true);
    const ActivationGrads grads = cuda::activated_input_grad(du, above, activation, layer, want_db);
    CHECK(grads.db.defined() == (want_db && !deterministic()));
    return cublas_probe().epilogue;
  };
  CHECK(gradient(kRelu, true) == CUBLASLT_EPILOGUE_DRELU_BGRAD);
  CHECK(gradient(kRelu, false) == CUBLASLT_EPILOGUE_DRELU);
  CHECK(gradient(kTanh, true) == CUBLASLT_EPILOGUE_DGELU_BGRAD);
  CHECK(gradient(kTanh, false) == CUBLASLT_EPILOGUE_DGELU);
  set_deterministic(true);
  CHECK(gradient(kRelu, true) == CUBLASLT_EPILOGUE_DRELU);
  CHECK(f.logged.empty());
}

TEST_CASE("MLP: a training step launches two kernels less per hidden layer") {
  Fixture f;
  const auto work_of_step = [](nn::Module& model) {
    model.to(kGpu);
    const Tensor x = rand({4, 8}).to(kGpu), dy = rand({4, 3}).to(kGpu);
    const auto step = [&] { model(x).backward(dy); };
    step();
    model.zero_grad();
    return work_of(step);
  };
  const auto check = [&]<class Layer>(Activation activation, auto... options) {
    nn::Sequential apart;
    apart.add<nn::Linear>(8, 16);
    apart.add<Layer>(options...);
    apart.add<nn::Linear>(16, 16);
    apart.add<Layer>(options...);
    apart.add<nn::Linear>(16, 3);
    nn::MLP fused(8, {16, 16, 3}, {.activation = activation});
    // Forward 3 products and 2 activations; backward 3 for the parameters, 2 for the layers below
    // and 2 activations.
    CHECK(work_of_step(apart) == Work{8, 4});
    CHECK(work_of_step(fused) == Work{8, 0});
  };
  check.template operator()<nn::ReLU>(Activation::kFastRelu);
  check.template operator()<nn::GELU>(Activation::kGeluTanh,
                                      GeluOptions{.tanh_approximation = true});
}

TEST_CASE("mlp: what cuBLAS has no epilogue for is computed by kernels apart, without a word") {
  Fixture f;
  // Sizes of their own: what cuBLAS refused stays refused.
  cublas_probe().unknown = {CUBLASLT_EPILOGUE_RELU_AUX_BIAS, CUBLASLT_EPILOGUE_GELU_AUX_BIAS};
  Perceptron(4, 6, 10, 3, Activation::kFastRelu).check();
  Perceptron(4, 6, 10, 3, Activation::kGeluTanh).check();  // sums at odd distances
  Perceptron(4, 6, 16, 3, Activation::kGeluTanh).check();  // sums as cuBLAS's gradient takes them
  CHECK(cublas_probe().epilogue == CUBLASLT_EPILOGUE_DEFAULT);  // dx, the last product
  const Tensor x = rand({4, 6}).to(kGpu), w = rand({10, 6}).to(kGpu), bias = rand({10}).to(kGpu);
  const ActivatedLinear layer = cuda::linear_activated(x, w, bias, Activation::kFastRelu, true);
  CHECK(cublas_probe().epilogue == CUBLASLT_EPILOGUE_RELU_BIAS);
  CHECK_FALSE(layer.kept.defined());
  cublas_probe().unknown = {CUBLASLT_EPILOGUE_DRELU_BGRAD, CUBLASLT_EPILOGUE_DGELU_BGRAD};
  Perceptron(4, 6, 11, 3, Activation::kFastRelu).check();
  Perceptron(4, 6, 11, 3, Activation::kGeluTanh).check();
  cublas_probe().unknown.insert({CUBLASLT_EPILOGUE_DRELU, CUBLASLT_EPILOGUE_DGELU});
  Perceptron(4, 6, 12, 3, Activation::kFastRelu).check();
  Perceptron(4, 6, 12, 3, Activation::kGeluTanh).check();
  CHECK(f.logged.empty());
  cublas_probe().knows_none = true;
  Perceptron(4, 6, 13, 3, Activation::kGeluTanh).check();
}

TEST_CASE("mlp: deterministic mode adds up no bias gradient in an epilogue") {
  Fixture f;
  set_deterministic(true);
  const Perceptron p(6, 5, 9, 4, Activation::kFastRelu);
  p.check();
  const Tensors first = p.outcome(kGpu), again = p.outcome(kGpu);
  for (size_t i = 0; i < first.size(); ++i) {
    CHECK(difference(again[i].cpu(), first[i].cpu(), 0) == "");
  }
}

TEST_CASE("mlp: a NaN in a layer reaches the loss") {
  Fixture f;
  Perceptron p(4, 6, 8, 3, Activation::kRelu);
  p.inputs[2] = full({8}, std::numeric_limits<float>::quiet_NaN());
  const Tensor y = p.outcome(kGpu)[0].cpu();
  for (int64_t i = 0; i < y.numel(); ++i) CHECK(std::isnan(y.data<float>()[i]));
}

TEST_CASE("mlp: factors and biases of every layout") {
  Fixture f;
  for (const Layout& layout : layouts()) {
    Perceptron p(4, 6, 9, 3, Activation::kGeluTanh);
    const Tensors want = p.outcome(kCPU);
    const auto there = [&](size_t i) {
      return same_memory_on(kGpu, layout.apply(p.inputs[i])).detach();
    };
    const Tensor y =
        mlp(there(0), {{there(1), there(2)}, {there(3), there(4)}}, {.activation = p.activation});
    CHECK_MESSAGE(difference(y.cpu(), want[0], kDeviceTolerance) == "", layout.name);
  }
}
