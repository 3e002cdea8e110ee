// compile: a function of tensors that is traced at its first call, and then runs as a graph in
// which pointwise ops are fused, with the sum or mean of a loss behind them. It has the function's
// gradients.
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
/// same time, if f itself may be called so. During the first call with inputs of a kind no other
/// thread may write the buffers of `module`: the trace puts them back. Other threads may draw
/// random numbers.
class LATHE_API CompiledFunction {
 public:
  /// f(inputs), with equal bits, and gradients.
  ///
  /// The first call with inputs of a kind traces f. A kind is their number, dtypes, devices, sizes,
  /// and order in memory (strides, where there are gaps), and which layers of `module` train.
  /// Dimension 0 of the first input, and of all inputs of as many rows, may have any size from 2
  /// on, if f is the same for two batches: that of the call, and another one of some rows.
  ///
  /// In a trace f runs twice under NoGrad, on copies of the inputs and on other values; if it is
  /// not the same for two batches, twice more. Meanwhile all that f computes stays in memory. The
  /// default generators that f's thread drew from, and the buffers of `module`, are then as before.
  /// Any other side effect of f happens in every one of these runs: draws from generators that the
  /// program made, for instance, or from those of threads that f starts.
  ///
  /// Batch norm in training moves its running statistics in each call, and dropout draws from the
  /// default generator, as in f.
  ///
  /// f itself is called where it cannot be traced, under Autocast, beyond 64 kinds, in a
  /// cuda::Graph's capture with inputs of a kind that is new, and while anything watches ops (a
  /// debug scope, a trace), a layer of `module` has hooks, or a batch norm of it sums over ranks.
  /// Call a step once before its capture. A function cannot be traced where trace() refuses it
  /// for other reasons, where batch norm moves statistics that are neither inputs nor buffers of
  /// `module`, where it keeps gradients from a tensor (detach(), NoGrad) that a graph would pass
  /// them to, where it returns a tensor that it made of no input, where it takes gradients itself
  /// or calls checkpoint(), and where an input lies in memory that the graph writes. What trace()
  /// does not see in a program holds here too.
  /// throws: ValueError for an undefined input; what f throws.
  Tensors operator()(const Tensors& inputs) const;

  /// For each kind of inputs: which ops run together and which alone, or why f is called itself. Of
  /// ops that run together on a GPU also how they did in the last call: as one kernel, or one by
  /// one, and why.
  std::string explain() const;

 private:
  CompiledFunction() = default;

  class State;
  friend CompiledFunction compile(std::function<Tensors(const Tensors&)>, const nn::Module*);
  std::shared_ptr<State> state_;
};

/// f's graphs are made when it is called. `module`: what f calls; it must live as long as f is
/// called. Its parameters and buffers have their names in the graphs, and there are other graphs
/// for training than for evaluation. Without it, a model that f calls must stay in one of the two.
/// Tensors that f uses are shared with the graphs, which follow their changes in place. Numbers
/// that f uses, and branches that it takes, are those of the first call.
LATHE_API CompiledFunction compile(std::function<Tensors(const Tensors&)> f,
                                   const nn::Module* module = nullptr);

}  // namespace lathe::jit
