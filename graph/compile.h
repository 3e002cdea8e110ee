// compile: a function of tensors that is traced at its first call, and then runs as a graph in
// which pointwise ops are fused. It has the function's gradients.
//   const auto loss = jit::compile([](const Tensors& t) {
//     const Tensor d = t[0] - t[1];
//     return Tensors{where(d.abs() < 1, d.square() * 0.5, d.abs() - 0.5).mean()};
//   });
//   loss({scores, targets})[0].backward();
//   std::cout << loss.explain();
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "lathe/core/tensor.h"
#include "lathe/nn/module.h"

namespace lathe::jit {

/// A function that compile() made. Copies share their graphs. Several threads may call one at the
/// same time.
class LATHE_API CompiledFunction {
 public:
  /// f(inputs), with equal bits, and gradients. The first call with inputs of a kind (number,
  /// dtypes, devices, sizes, order in memory, training modes of `module`, Autocast) traces f, which
  /// then runs twice or four times under NoGrad; what trace() does not see in a program holds here
  /// too. Dimension 0 of the first input, and of all inputs of as many rows, may have any size from
  /// 2 on, if f is the same for two batches, that of the call and another one; other sizes are of
  /// another kind. Where f cannot be traced, and beyond 64 kinds, f itself is called.
  /// throws: ValueError for an undefined input; what f throws.
  Tensors operator()(const Tensors& inputs) const;

  /// For each kind of inputs: which ops run together and which alone, or why f is called itself.
  std::string explain() const;

 private:
  CompiledFunction() = default;

  class State;
  friend CompiledFunction compile(std::function<Tensors(const Tensors&)>, const nn::Module*);
  std::shared_ptr<State> state_;
};

/// f's graphs are made when it is called. `module`: its parameters and buffers have their names in
/// explain(); other tensors that f uses, and the module's, are shared with the graphs, which follow
/// their changes in place. Numbers that f uses are those of the first call.
LATHE_API CompiledFunction compile(std::function<Tensors(const Tensors&)> f,
                                   const nn::Module* module = nullptr);

}  // namespace lathe::jit
