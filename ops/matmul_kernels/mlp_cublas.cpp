// Linear layers with their activations through cuBLASLt, whose epilogues apply the activation and
// its derivative to a product's sums before they leave the registers. Contracts: mlp.h.
//
// The derivative is part of the product that leads to it, the next layer's dy = du * w. So a hidden
// layer's gradient is never written without its activation's, and the sums of its columns, which
// are the bias's gradient, come with it (CUBLASLT_EPILOGUE_DRELU_BGRAD, DGELU_BGRAD). The last
// layer's dy comes from elsewhere, so there the activation's gradient is a separate kernel.
#include <optional>

#include "lathe/core/alignment.h"
#include "lathe/core/math_mode.h"
#include "lathe/ops/matmul.h"
#include "lathe/ops/matmul_kernels/matmul_cublas.h"
#include "lathe/ops/mlp.h"

namespace lathe::cuda {

namespace {

struct Epilogues {
  MatmulEpilogue forward, backward;
};

/// None for the exact gelu, because cuBLAS has only the approximation, nor for the relu that keeps
/// NaN.
std::optional<Epilogues> epilogues_of(Activation activation) {
  switch (activation) {
    case Activation::kFastRelu: return Epilogues{MatmulEpilogue::kRelu, MatmulEpilogue::kReluGrad};
    case Activation::kGeluTanh: return Epilogues{MatmulEpilogue::kGelu, MatmulEpilogue::kGeluGrad};
    case Activation::kRelu:
    case Activation::kGelu: break;
  }
  return std::nullopt;
}

/// A relu's bits always are readable; sums that another kernel made may lie in another way.
bool is_readable_kept(const Tensor& kept) {
  return kept.defined() &&
         (kept.dtype() == kU8 ||
          (kept.stride(1) == 1 && kept.stride(0) % 8 == 0 && alignment_of(kept.raw_data()) == 16));
}

}  // namespace

ActivatedLinear linear_activated(const Tensor& x, const Tensor& w, const Tensor& bias,
                                 Activation activation, bool keep) {
  const Tensor y = empty({x.dim(0), w.dim(0)}, {.dtype = x.dtype(), .device = x.device()});
  const auto epilogues = epilogues_of(activation);
  if (epilogues && is_cublas_product(y, x.dim(1))) {
    const Tensor w_t = alias(w, {w.dim(1), w.dim(0)}, {w.stride(1), w.stride(0)}, w.offset());
    const Tensor a = readable_matrix(x), b = readable_matrix(w_t), c = readable_bias(bias);
    const auto multiply = [&](const Tensor& kept) {
      return cublas_multiply(y, a, b, {.epilogue = epilogues->forward, .bias = c, .kept = kept});
    };
    if (keep) {
      const Tensor kept = make_kept(epilogues->forward, y);
      if (multiply(kept)) return {y, kept};
    }
    if ((!keep || is_relu(activation)) && multiply({})) return {y, {}};
  }
  return activated(cuda::linear(x, w, bias), activation, keep);
}

// In deterministic mode without db, because the order in which it is added up is not documented.
ActivationGrads activated_input_grad(const Tensor& du, const Tensor& w, Activation activation,
                                     const ActivatedLinear& layer, bool want_db) {
  const TensorOptions options{.dtype = du.dtype(), .device = du.device()};
  const Tensor dz = empty({du.dim(0), w.dim(1)}, options);
  const auto epilogues = epilogues_of(activation);
  if (epilogues && is_readable_kept(layer.kept) && is_cublas_product(dz, w.dim(0))) {
    const Tensor a = readable_matrix(du), b = readable_matrix(w);
    const auto multiply = [&](const Tensor& db) {
      return cublas_multiply(dz, a, b,
                             {.epilogue = epilogues->backward, .bias = db, .kept = layer.kept});
    };
    if (want_db && !deterministic()) {
      const Tensor db = empty({w.dim(1)}, options);
      if (multiply(db)) return {dz, db};
    }
    if (multiply({})) return {dz, {}};
  }
  return {lathe::activation_grad(cuda::matmul(du, w), activation, layer), {}};
}

}  // namespace lathe::cuda
