// Step: a training step, from a batch to new weights.
//
//   train::Step step(model, optimizer, train::classification(model), {.amp = "bf16"});
//   for (auto& [x, y] : loader) {
//     const Tensor loss = step({x, y}).loss;
//     schedule.step();
//   }
//
// step.cpp: the parts of a step; step_capture.cpp: steps as CUDA graphs; losses.h: losses to begin
// with.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "lathe/core/config.h"
#include "lathe/core/tensor.h"
#include "lathe/nn/module.h"
#include "lathe/optim/ema.h"
#include "lathe/optim/grad_scaler.h"
#include "lathe/optim/optimizer.h"

namespace lathe::cuda {
class StepGraphs;
}
namespace lathe::distributed {
class DistributedDataParallel;
class ProcessGroup;
}  // namespace lathe::distributed

namespace lathe::train {

/// What the forward pass of a batch gives.
struct Result {
  Tensor loss;            // 0-d: the mean over the samples of the batch
  Tensor output, target;  // what metrics compare; may be undefined
  int64_t samples = 0;    // of the batch; Step sets it
};

/// The forward pass of a training: computes the loss of a batch. It decides what the tensors of a
/// batch mean. The first dimension of the first tensor counts the samples.
using LossFunction = std::function<Result(const Tensors& batch)>;

struct StepOptions {
  // "off", "bf16" or "fp16": the forward pass runs under Autocast. "fp16" scales the loss.
  std::string amp = "off";
  // How the loss is scaled; by default as GradScalerOptions says, with "fp16" only.
  std::optional<optim::GradScalerOptions> scaling = {};
  int64_t accumulate = 1;     // batches of an update
  double clip_grad_norm = 0;  // above 0: clips the norm of all gradients of an update to this
  bool recompute = false;     // saves memory, see autograd/recompute.h
  optim::EMA* ema = nullptr;  // is updated with the weights
  // Ranks that train together, each on its part of every batch. Gradients are averaged over them
  // (DistributedDataParallel).
  distributed::ProcessGroup* group = nullptr;
  // On a GPU: steps are launched as CUDA graphs where they can be (step_capture.cpp).
  bool capture = true;
};

/// A step computes the loss of a batch and its gradients. After `accumulate` batches it updates the
/// weights with the mean gradient over all their samples. It never waits for a GPU.
///
/// operator() does all of this. A loop that looks at something in between calls the parts, in this
/// order: forward(), backward() and, if ends_update(), update().
///
/// Several steps may train in turns, as those of a GAN do: each begins an update by clearing the
/// gradients of its own optimiser.
///
/// Model, optimiser, EMA and group must outlive it. With `capture` on a GPU also:
///   - The first two batches of a shape run as they are. The third one records the graph.
///   - Results keep their values until the next call.
///   - The loss function must do the same GPU work for each batch of a shape, and must not wait for
///     the GPU. A step that cannot be recorded runs as it is; graphs()->take_problem() says why.
///   - The optimiser is set_capturable(), the EMA too.
/// With amp, the optimiser is set to write half copies of the weights (set_half_copies()).
/// Neither copied nor moved. Not thread-safe.
class LATHE_API Step {
 public:
  /// throws: ValueError for an amp that is none of the three, for accumulate below 1, a negative
  /// or non-finite clip_grad_norm, an empty loss function or a model without parameters; what
  /// GradScaler and DistributedDataParallel throw.
  Step(nn::Module& model, optim::Optimizer& optimizer, LossFunction loss,
       const StepOptions& options = {});
  ~Step();
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  struct BatchOptions {
    bool last = false;   // no batch follows, as at the end of an epoch: it ends the update
    bool stays = false;  // later batches come in the same memory (data/device/batch_places.h)
  };

  /// The whole step.   → what the loss function gave
  /// throws: ValueError for a batch without samples or a loss that is not 0-d; what the loss
  /// function, the backward pass and the optimiser throw. Then discard() was called.
  Result operator()(const Tensors& batch, const BatchOptions& options);
  Result operator()(const Tensors& batch) { return (*this)(batch, BatchOptions{}); }

  /// Computes the loss, or launches a graph that makes all parts of the step.
  /// throws: StateError if backward() or update() is still to be called for the batch before.
  Result forward(const Tensors& batch, const BatchOptions& options);
  /// Adds the gradients of the batch to those of the batches since the last update. With a group,
  /// the last batch of an update averages them over the ranks.
  void backward();
  /// Whether update() follows the batch.
  bool ends_update() const;
  /// Updates weights, loss scale and EMA, and clears the gradients.
  /// `look`  is called when the gradients in memory are those that the optimiser has used: unscaled
  ///         and clipped. A graph has no such moment: `look` is not called then.
  /// throws: LossScaleError (GradScaler::update).
  void update(const std::function<void()>& look = {});
  /// Gives up the batches since the last update: clears their gradients.
  void discard();

  /// Whether a graph has made the batch's backward pass, and its update if it ends one.
  bool launched() const;
  /// Batches since the last update.
  int64_t batches() const;

  optim::GradScaler& scaler();
  optim::Optimizer& optimizer();
  /// Null for one process.
  distributed::DistributedDataParallel* parallel();
  /// The graphs of the steps; null if steps are not captured. Other work with the same weights,
  /// such as evaluations, may use them too, with kinds (StepGraphs::takes) below 0.
  cuda::StepGraphs* graphs();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lathe::train
