// Linear layers with their activations on the CPU: the ops one after another. Contracts: mlp.h.
#include "lathe/ops/matmul.h"
#include "lathe/ops/mlp.h"

namespace lathe::cpu {

ActivatedLinear linear_activated(const Tensor& x, const Tensor& w, const Tensor& bias,
                                 Activation activation, bool keep) {
  return activated(cpu::linear(x, w, bias), activation, keep);
}

ActivationGrads activated_input_grad(const Tensor& du, const Tensor& w, Activation activation,
                                     const ActivatedLinear& layer, bool) {
  return {activation_grad(cpu::matmul(du, w), activation, layer), {}};
}

}  // namespace lathe::cpu
