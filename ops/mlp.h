// Linear layers followed by an activation, one alone or several in a row. mlp.cpp: checks and
// gradients; matmul_kernels/mlp_cpu.cpp and mlp_cublas.cpp: what one layer computes.
#pragma once

#include <cstdint>
#include <vector>

#include "lathe/core/tensor.h"

namespace lathe {

enum class Activation : uint8_t {
  kRelu,      // relu(x)
  kFastRelu,  // relu(x), inside the product on a GPU, where cuBLASLt may turn NaN into 0
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
/// The last layer has no activation, unless activate_last is set.
///   x  […,in], w of the first layer [n1,in], of the second [n2,n1], …     →  […,out of the last]
/// On a CPU the result has the bits of separate calls of linear and the activation. On a GPU:
///   - kFastRelu and kGeluTanh run inside the layer's product, if cuBLASLt offers it. Their
///     gradients, and those of the biases, run inside the products of the backward pass. Inside the
///     product, the activation reads sums before they are rounded to a half type.
///   - kRelu and kGelu are separate kernels. cuBLASLt has only the tanh approximation of gelu, and
///     its relu may lose a NaN. kRelu keeps NaN, so that a failed training can be noticed.
/// dtypes: f16, bf16, f32, f64, all the same.
/// grad: x, w, bias, twice differentiable.   amp: half.
/// throws: ShapeError, DTypeError, DeviceError; ValueError without a layer.
LATHE_API Tensor mlp(const Tensor& x, const std::vector<MlpLayer>& layers,
                     const MlpOptions& options = {});

inline bool is_relu(Activation activation) {
  return activation == Activation::kRelu || activation == Activation::kFastRelu;
}

/// A layer's result y, and the data that the activation's gradient reads besides y: for gelu, the
/// sums z that gelu was applied to; for relu, the bits that CUBLASLT_EPILOGUE_RELU_AUX wrote, or
/// nothing.
struct ActivatedLinear {
  Tensor y, kept;
};
/// dz, the gradient with respect to a layer's sums, and db, the sums of dz's columns.
struct ActivationGrads {
  Tensor dz, db;
};

/// Applies the activation to a layer's sums z, in place if nothing else needs z. With `keep`, the
/// result also holds what the gradient will read.
ActivatedLinear activated(const Tensor& z, Activation activation, bool keep);
/// dz = dy activation'(z).
/// grad: dy, and layer.kept of a gelu, twice differentiable.
Tensor activation_grad(const Tensor& dy, Activation activation, const ActivatedLinear& layer);

namespace cpu {
/// x [n,in], w [out,in] → y [n,out].
ActivatedLinear linear_activated(const Tensor& x, const Tensor& w, const Tensor& bias,
                                 Activation activation, bool keep);
/// dz = (du * w) activation'(z), where u = linear(y, w) is the layer that follows `layer`.
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
