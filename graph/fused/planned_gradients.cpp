// The gradients of pointwise programs by plans and kernels. Contract: planned_gradients.h.
#include "lathe/graph/fused/planned_gradients.h"

#include <algorithm>

#include "lathe/core/dense.h"
#include "lathe/graph/fused/group_kernel.h"
#include "lathe/graph/fused/pointwise_gradient.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/views.h"

namespace lathe::jit {

namespace {

/// The gradients of the inputs: what a gradient's plan made, or one of its operands itself.
Tensors chosen(const PointwiseGradient& gradient, const Tensors& made, const Tensors& inputs,
               const Tensors& dy) {
  Tensors gradients(inputs.size());
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!gradient.from[i]) continue;
    const int from = *gradient.from[i];
    const auto at = static_cast<size_t>(from);
    gradients[i] = from < 0             ? made[static_cast<size_t>(-1 - from)]
                   : at < inputs.size() ? inputs[at]
                                        : dy[at - inputs.size()];
  }
  return gradients;
}

/// A gradient that is one number for a whole dimension, as that of a mean, with this dimension of
/// size 1.
Tensor unexpanded(Tensor t) {
  for (int d = 0; d < t.ndim(); ++d) {
    if (t.dim(d) > 1 && t.strides()[d] == 0) t = narrow(t, d, 0, 1);
  }
  return t;
}

/// The gradients by a plan on the CPU, if there is one.
std::optional<Tensors> gradients_on_cpu(const PointwiseProgram& program, const Tensors& inputs,
                                        const Tensors& dy, const std::vector<bool>& wanted) {
  Tensors operands = inputs;
  for (const Tensor& t : dy) operands.push_back(t.defined() ? unexpanded(t) : t);
  const std::optional<InputForms> forms = input_forms(program.shape, operands);
  if (!forms) return std::nullopt;
  const auto dys = forms->begin() + program.inputs;
  const auto gradient = gradient_of(program, wanted, {forms->begin(), dys}, {dys, forms->end()});
  if (gradient == nullptr) return std::nullopt;
  operands.insert(operands.end(), gradient->constants.begin(), gradient->constants.end());
  return chosen(*gradient, gradient->plan.run(operands), inputs, dy);
}

/// The gradients by a kernel, if there is one; those that are only passed on need none. A `dy` that
/// is expanded along some dimensions, or has gaps, is copied first.
std::optional<Tensors> gradients_on_gpu(const PointwiseProgram& program, const Tensors& inputs,
                                        const Tensors& dy, const std::vector<bool>& wanted,
                                        Device gpu) {
  const std::optional<InputForms> forms = input_forms(program.shape, inputs);
  if (!forms) return std::nullopt;
  InputForms dys;
  Tensors operands = inputs;
  for (const Tensor& t : dy) {
    operands.push_back(t.defined() ? unexpanded(t) : t);
    const bool number = t.defined() && operands.back().numel() == 1 && t.numel() != 1;
    dys.push_back(!t.defined() ? InputForm{}
                               : InputForm{t.dtype(), number ? InputForm::Kind::kNumber
                                                             : InputForm::Kind::kFull});
  }
  const auto gradient = gradient_of(program, wanted, *forms, dys);
  if (gradient == nullptr) return std::nullopt;
  if (gradient->plan.made().empty()) return chosen(*gradient, {}, inputs, dy);
  const LoadedGroup& kernel = gradient->kernel->on(gpu);
  if (!kernel.kernel) return std::nullopt;
  const auto full = std::ranges::find(*forms, InputForm::Kind::kFull, &InputForm::kind);
  const Tensor& like = inputs[static_cast<size_t>(full - forms->begin())];
  for (size_t r = 0; r < dy.size(); ++r) {
    if (dys[r].kind != InputForm::Kind::kFull || input_forms(program.shape, {like, dy[r]}))
      continue;
    if (is_dense(dy[r])) return std::nullopt;  // the ops' gradients have its order, not the inputs'
    Tensor& copy = operands[inputs.size() + r] = empty_like(like, dy[r].dtype());
    copy.copy_(dy[r]);
  }
  operands.insert(operands.end(), gradient->constants.begin(), gradient->constants.end());
  return chosen(*gradient, gradient->kernel->run(kernel, operands), inputs, dy);
}

}  // namespace

std::optional<Tensors> planned_gradients(const PointwiseProgram& program, const Tensors& inputs,
                                         const Tensors& dy, const std::vector<bool>& wanted,
                                         std::optional<Device> gpu) {
  return gpu ? gradients_on_gpu(program, inputs, dy, wanted, *gpu)
             : gradients_on_cpu(program, inputs, dy, wanted);
}

std::string why_no_gradient_kernel(const PointwiseProgram& program, const InputForms& forms,
                                   const Tensors& inputs, Device gpu, bool added_up) {
  std::vector<bool> wanted;
  for (size_t i = 0; i < inputs.size(); ++i) {
    wanted.push_back(inputs[i].defined() && inputs[i].requires_grad());
    if (wanted[i] && forms[i].kind != InputForm::Kind::kFull)
      return "the gradient of a number is a sum";
  }
  InputForms dys;
  for (const int k : program.results) {
    const DType dtype = program.steps[static_cast<size_t>(k)].dtype;
    dys.push_back(is_floating(dtype) ? InputForm{dtype, InputForm::Kind::kFull} : InputForm{});
  }
  if (added_up) dys.back().kind = InputForm::Kind::kNumber;
  const auto gradient = gradient_of(program, wanted, forms, dys);
  if (gradient == nullptr) return "the backward pass has an op without a kernel of its own";
  return gradient->plan.made().empty() ? "" : gradient->kernel->on(gpu).why_not;
}

}  // namespace lathe::jit
