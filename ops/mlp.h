// Linear layers with the activation that follows, alone or one after another. Here: contracts.
// mlp.cpp: checks and gradients; mlp_cpu.cpp and mlp_cublas.cpp: what one layer computes.
#pragma once

#include <cstdint>
#include <vector>

#include "lathe/core/tensor.h"

namespace lathe {

enum class Activation : uint8_t {
  kRelu,      // relu(x)
  kFastRelu,  // relu(x); on a GPU part of the product, where cuBLASLt may make 0 of a NaN
  kGelu,      // gelu(x)
  kGeluTanh,  // gelu(x, {.tanh_approximation = true})
};

/// activation(linear(x, w, bias)): see ops/matmul.h.
///   x  […,in]     w  [out,in]     bias  [out] or undefined     →  […,out]
/// As mlp with one layer that is activated.
LATHE_API Tensor linear(const Tensor& x, const Tensor& w, const Tensor& bias,
                        Activation activation);

struct MlpLayer {
  Tensor w;          // [out,in]
  Tensor bias = {};  // [out] or undefined
};

struct MlpOptions {
  Activation activation = Activation::kRelu;
  bool activate_last = false;  // true: after the last layer, too
};

/// A multilayer perceptron: h = activation(linear(h, w, bias)) for each layer, h = x at first; the
/// last one is linear alone.
///   x  […,in], w of the first layer [n1,in], of the second [n2,n1], …     →  […,out of the last]
/// dtypes: f16, bf16, f32, f64, all the same. CPU: the bits of linear and the activation called one
/// by one. GPU: where cuBLASLt offers it, kFastRelu and kGeluTanh are part of the layer's product,
/// and their gradients, with those of the biases, part of the products that lead to them; the
/// activation then sees sums that were not rounded to a half type. The others are kernels of their
/// own: CUBLASLT_EPILOGUE_GELU is the approximation by tanh, and nothing says that
/// CUBLASLT_EPILOGUE_RELU passes a NaN on, as relu() does, and with it the news that training has
/// failed. grad: x, w, bias (twice).   amp: half.   throws: ShapeError, DTypeError, DeviceError,
/// ValueError without a layer.
LATHE_API Tensor mlp(const Tensor& x, const std::vector<MlpLayer>& layers,
                     const MlpOptions& options = {});

inline bool is_relu(Activation activation) {
  return activation == Activation::kRelu || activation == Activation::kFastRelu;
}

/// A layer's result y, and what the gradient of its activation reads beside y: the sums z before a
/// gelu; for a relu the bits that CUBLASLT_EPILOGUE_RELU_AUX wrote, or nothing.
struct ActivatedLinear {
  Tensor y, kept;
};
/// dz, the gradient in a layer's sums, and db, the sums of dz's columns.
struct ActivationGrads {
  Tensor dz, db;
};

/// The layer whose sums are z, in place where nothing else needs them; `keep`: a gradient follows.
ActivatedLinear activated(const Tensor& z, Activation activation, bool keep);
/// dz = dy activation'(z).   grad: dy, and layer.kept of a gelu (twice).
Tensor activation_grad(const Tensor& dy, Activation activation, const ActivatedLinear& layer);

namespace cpu {
/// x [n,in], w [out,in] → y [n,out].
ActivatedLinear linear_activated(const Tensor& x, const Tensor& w, const Tensor& bias,
                                 Activation activation, bool keep);
/// dz = (du * w) activation'(z): `layer` is followed by u = linear(y, w). du [n,out], w [out,in].
/// db is defined where it came in the same kernel, for which `want_db` asks.
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
