// checkpoint: less memory for more computing. What a function's ops save is dropped after the
// forward pass and computed again in the backward pass. (Files of a run's state: nn/checkpoint.h.)
//   h = checkpoint([&](const Tensors& in) { return block(in[0]); }, {h});
// ref: Chen et al. 2016 (arXiv:1604.06174).
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "lathe/autograd/tensors_function.h"
#include "lathe/core/tensor.h"

namespace lathe {

namespace autograd {
LATHE_API Tensors checkpoint(const TensorsFunction& f, const Tensors& inputs);
}  // namespace autograd

/// Returns f(inputs) without recording the ops of f. A backward pass that reaches the result calls
/// f(inputs) a second time, records this call, and continues through the new graph. So gradients
/// flow to the inputs, and to the tensors that f refers to (parameters). The gradients have the
/// same bits as without checkpoint().
///   f  a function from const Tensors& to Tensor or Tensors. A copy is kept until the graph is
///      freed; the objects that f refers to must live as long.
/// The second call starts from the same state of the default generators and under the same Autocast
/// scopes as the first one. Other threads should draw no random numbers during either call.
///   - A Generator that f holds is not reset: f draws other numbers from it in the second call.
///   - Side effects of f happen twice: batch norm, for instance, updates its running statistics
///     twice.
/// Checkpoints nest. Second derivatives flow through the second call too.
/// Under NoGrad, checkpoint() only calls f(inputs).
/// throws: what f throws. In the backward pass: StateError if an input was modified in place after
/// the first call, or if the second call of f returns tensors of another number, shape, dtype or
/// device.
template <class F>
auto checkpoint(F f, const Tensors& inputs) {
  using Result = std::invoke_result_t<F&, const Tensors&>;
  Tensors outputs = autograd::checkpoint(std::move(f), inputs);
  if constexpr (std::derived_from<std::remove_cvref_t<Result>, Tensor>) {
    return Tensor(outputs.front());
  } else {
    return outputs;
  }
}

}  // namespace lathe
