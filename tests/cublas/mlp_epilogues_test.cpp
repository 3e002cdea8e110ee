// Which epilogue of cuBLASLt the layers of a perceptron ask for, and what takes its place where cuBLAS
// has none: over the emulated one, which tells and can be made to refuse. The results: mlp_test.cpp.
#include "../cuda_case.h"
#include "fixture.h"
#include "lathe/core/math_mode.h"
#include "lathe/ops/matmul.h"
#include "lathe/tests/emulation/cublas_emulation.h"
#include "perceptron.h"

using namespace lathe;
using namespace lathe::test;
using emulation::cublas_probe;

namespace {

cublasLtEpilogue_t epilogue_of_layer(const Tensor& x, const Tensor& w, const Tensor& bias,
                                     Activation activation, bool keep) {
  cuda::linear_activated(x, w, bias, activation, keep);
  return cublas_probe().epilogue;
}

}  // namespace

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
