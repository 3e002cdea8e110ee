// Linear layers followed by an activation, one alone or several in a row. Here: contracts. mlp.cpp:
// checks and gradients; matmul_kernels/mlp_cpu.cpp and mlp_cublas.cpp: what one layer computes.
#pragma once

#include <cstdint>
#include <vector>

#include "lathe/core/tensor.h"

namespace lathe {

enum class Activation : uint8_t {
  kRelu,      // relu(x)
  kFastRelu,  // relu(x); on a GPU part of the product, where cuBLASLt may turn NaN into 0
  kGelu,      // gelu(x)
  kGeluTanh,  // gelu(x, {.tanh_approximation = true})
};

/// activation(linear(x, w, bias)): see ops/matmul.h.
///   x  […,in]     w  [out,in]     bias  [out] or undefined     →  […,out]
/// dtypes, gradients, mixed precision and errors are those of mlp with one activated layer.
LATHE_API Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias,
                        Activation activation);

struct MlpLayer {
  Tensor w;          // [out,in]
  Tensor bias = {};  // [out] or undefined
};

struct MlpOptions {
  Activation activation = Activation::kRelu;
  bool activate_last = false;  // true: activate the last layer's result too
};

/// A multilayer perceptron: h = activation(linear(h, w, bias)) for each layer, starting with h = x.
/// The last layer is linear only, unless activate_last is set.
///   x  […,in], w of the first layer [n1,in], of the second [n2,n1], …     →  […,out of the last]
/// On a CPU the result has the same bits as linear and the activation called one by one. On a GPU,
/// where cuBLASLt offers it, kFastRelu and kGeluTanh are computed inside the layer's product, and
/// their gradients, with those of the biases, inside the products that lead to them; the activation
/// then sees sums that were not rounded to a half type. The other activations are separate kernels:
/// CUBLASLT_EPILOGUE_GELU is the approximation by tanh, and CUBLASLT_EPILOGUE_RELU is not
/// documented to pass on a NaN. relu() passes it on, so that a failed training shows.
/// dtypes: f16, bf16, f32, f64, all the same.
/// grad: x, w, bias (twice).   amp: half.
/// throws: ShapeError, DTypeError, DeviceError; ValueError without a layer.
LATHE_API Tensor mlp(const Tensor& x, const std::vector<MlpLayer>& layers,
                     const MlpOptions& options = {});

inline bool is_relu(Activation activation) {
  return activation == Activation::kRelu || activation == Activation::kFastRelu;
}

/// A layer's result y, and what the gradient of its activation reads besides y: for a gelu the sums
/// z before it; for a relu the bits that CUBLASLT_EPILOGUE_RELU_AUX wrote, or nothing.
struct ActivatedLinear {
  Tensor y, kept;
};
/// dz, the gradient with respect to a layer's sums, and db, the sums of dz's columns.
struct ActivationGrads {
  Tensor dz, db;
};

/// The activated layer whose sums are z; computed in place if nothing else needs z. `keep`: keep
/// what a gradient will read.
ActivatedLinear activated(const Tensor& z, Activation activation, bool keep);
/// dz = dy activation'(z).
/// grad: dy, and layer.kept of a gelu (twice).
Tensor activation_grad(const Tensor& dy, Activation activation, const ActivatedLinear& layer);

namespace cpu {
/// x [n,in], w [out,in] → y [n,out].
ActivatedLinear linear_activated(const Tensor& x, const Tensor& w, const Tensor& bias,
                                 Activation activation, bool keep);
/// dz = (du * w) activation'(z), where u = linear(y, w) is what follows `layer`.
///   du  [n,out]     w  [out,in]
/// db is defined only if `want_db` and the same kernel computes it.
ActivationGrads activated_input_grad(const Tensor& du, const Tensor& w, Activation activation,
                                     const ActivatedLinear& layer, bool want_db);
}  // namespace cpu
namespace cuda {
ActivatedLinear linear_activated(const Tensor& x, const Tensor& w, const Tensor& bias,
                                 Activation activation, bool keep);
ActivationGrads activated_input_grad(const Tensor& du, const Tensor& w, Activation activation,
                                     const ActivatedLinear& layer, bool want_db);
}  // namespace cuda

}  // namespace lathe
