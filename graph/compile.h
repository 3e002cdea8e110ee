// compile: traces a function of tensors at its first call, and runs it as a graph from then on. In
// the graph, pointwise ops are fused, with the sum or mean of a loss behind them. The compiled
// function has the gradients of the original one.
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

/// A function that compile() made. Copies share the traced graphs. Several threads may call a
/// CompiledFunction at the same time if they may call f at the same time. During the first call
/// with inputs of a new kind, no other thread may write the buffers of `module`, because the trace
/// restores them. Other threads may draw random numbers meanwhile.
class LATHE_API CompiledFunction {
 public:
  /// Returns f(inputs), with the same bits but for ops that docs/graphs.md names, and with
  /// gradients.
  ///
  /// The first call with inputs of a new kind traces f. The kind consists of:
  ///   - the number of inputs, their dtypes, devices, sizes and order in memory (if an input has
  ///     gaps, its strides)
  ///   - which layers of `module` are in training mode
  /// If f does the same for two batch sizes, the call's and another one, the batch size is not part
  /// of the kind. Dimension 0 of the first input, and of all inputs with as many rows, may then
  /// have any size from 2 on.
  ///
  /// A trace runs f twice under NoGrad: on copies of the inputs, and on other values. If f does
  /// something else for another batch size, f runs twice more. During a trace everything that f
  /// computes stays in memory. After the trace, the buffers of `module` and the default generators
  /// that f's thread drew from are as before. Any other side effect of f happens in every one of
  /// these runs. For instance, a generator that the program made advances, and so does a default
  /// generator from which a thread started by f draws.
  ///
  /// Each call updates the running statistics of batch norms in training mode, and dropouts draw
  /// from the default generator, as when f itself runs.
  ///
  /// In these cases the function calls f itself:
  ///   - under Autocast, or while anything watches ops (a debug scope, a trace)
  ///   - for further kinds of inputs, after 64 kinds were traced
  ///   - if inputs of a new kind come during the capture of a cuda::Graph (to avoid this, call the
  ///     function once before the capture)
  ///   - if a layer of `module` has hooks, or a batch norm in it sums over ranks
  ///   - if an input shares memory with another tensor that the graph writes
  ///   - if f cannot be traced
  ///
  /// f cannot be traced if it
  ///   - takes gradients itself, or calls checkpoint()
  ///   - stops a gradient (detach(), NoGrad) that a graph would pass on
  ///   - returns a tensor that depends on no input
  ///   - updates statistics of batch norm that are neither inputs nor buffers of `module`
  ///   - does something else for which trace() throws TraceError
  /// The contract of trace() lists what a trace does not see.
  /// throws: ValueError for an undefined input; what f throws.
  Tensors operator()(const Tensors& inputs) const;

  /// Says for each kind of inputs which ops run together and which alone, or why the compiled
  /// function f runs without a graph. For ops that run together on a GPU, explain() also says how
  /// they ran in the last call: as one kernel, or one by one and why.
  std::string explain() const;

 private:
  CompiledFunction() = default;

  class State;
  friend CompiledFunction compile(std::function<Tensors(const Tensors&)>, const nn::Module*);
  std::shared_ptr<State> state_;
};

/// Returns a function that traces f when it is called. The traced graphs share the tensors that f
/// uses, and see later in-place changes of these tensors. Numbers that f uses, and branches that it
/// takes, stay those of the first call.
///   module  the model that f calls; it must exist whenever f is called. The graphs use the names
///           of its parameters and buffers. Training and evaluation have separate graphs. Without
///           `module`, a model that f calls must not switch between training and evaluation mode.
LATHE_API CompiledFunction compile(std::function<Tensors(const Tensors&)> f,
                                   const nn::Module* module = nullptr);

}  // namespace lathe::jit
