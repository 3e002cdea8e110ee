// Step: a training step, from a batch to new weights.
//
//   train::Step step(model, optimizer, train::classification(model), {.amp = "bf16"});
//   for (auto& [x, y] : loader) {
//     const Tensor loss = step({x, y}).loss;
//     schedule.step();
//   }
//
// losses.h has loss functions of common tasks.
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

/// The result of the forward pass of a batch.
struct Result {
  Tensor loss;            // 0-d: the mean over the samples of the batch
  Tensor output, target;  // what metrics compare; may be undefined
  int64_t samples = 0;    // samples in the batch; Step sets it
};

/// The forward pass of a training: computes the loss of a batch. It decides what the tensors of a
/// batch mean. The first dimension of the first tensor is the number of samples.
using LossFunction = std::function<Result(const Tensors& batch)>;

struct StepOptions {
  // "off", "bf16" or "fp16": the forward pass runs under Autocast. "fp16" scales the loss.
  std::string amp = "off";
  // How the loss is scaled; by default as GradScalerOptions says, with "fp16" only.
  std::optional<optim::GradScalerOptions> scaling = {};
  int64_t accumulate = 1;     // batches per update
  double clip_grad_norm = 0;  // above 0: clips the norm of all gradients of an update to this
  bool recompute = false;     // saves memory, see autograd/recompute.h
  optim::EMA* ema = nullptr;  // updated after the weights
  // Ranks that train together, each on its part of every batch. Gradients are averaged over them
  // (DistributedDataParallel).
  distributed::ProcessGroup* group = nullptr;
  // On a GPU: steps are launched as CUDA graphs if possible (step_capture.cpp).
  bool capture = true;
};

/// A step computes the loss of a batch and its gradients. After `accumulate` batches it updates the
/// weights with the mean gradient over all their samples. It never waits for a GPU.
///
/// operator() makes a whole step. A training loop that inspects something within a step calls its
/// parts instead, in this order: forward(), backward() and, if ends_update() is true, update().
///
/// Several Steps may take turns, as for a GAN: each begins an update by clearing the gradients of
/// its own optimiser.
///
/// Model, optimiser, EMA and process group must outlive the Step. With amp, the Step calls the
/// optimiser's set_half_copies(). A Step cannot be copied or moved, and is not thread-safe. With
/// `capture` on a GPU:
///   - The first two batches of a shape run without a CUDA graph. The step of the third batch is
///     captured into one.
///   - The returned results keep their values until the next call.
///   - The loss function must do the same GPU work for each batch of a shape, and must not wait for
///     the GPU. A step that cannot be captured runs without a CUDA graph;
///     graphs()->take_problem() says why.
///   - The Step calls set_capturable() of the optimiser and the EMA.
class LATHE_API Step {
 public:
  /// throws: what GradScaler and DistributedDataParallel throw; ValueError for one of these:
  ///   - an unknown amp, accumulate below 1, or a clip_grad_norm that is negative or not finite
  ///   - an empty loss function, or a model without parameters
  Step(nn::Module& model, optim::Optimizer& optimizer, LossFunction loss,
       const StepOptions& options = {});
  ~Step();
  Step(const Step&) = delete;
  Step& operator=(const Step&) = delete;

  struct BatchOptions {
    bool last = false;   // the last batch, as at the end of an epoch: it ends the update
    bool stays = false;  // later batches are in the same memory (data/device/batch_places.h)
  };

  /// Makes a whole step. If it throws, it has called discard() before.   → the loss function's
  /// result
  /// throws: ValueError for a batch without samples or a loss that is not 0-d; what the loss
  /// function, the backward pass and the optimiser throw.
  Result operator()(const Tensors& batch, const BatchOptions& options);
  Result operator()(const Tensors& batch) { return (*this)(batch, BatchOptions{}); }

  /// Computes the loss, or launches a CUDA graph that makes the whole step.
  /// throws: StateError if backward() or update() has not been called for the previous batch.
  Result forward(const Tensors& batch, const BatchOptions& options);
  /// Computes the batch's gradients and adds them to the gradients since the last update. With
  /// StepOptions::group, backward() of an update's last batch also averages the sums over the
  /// ranks.
  void backward();
  /// True if update() must be called after this batch.
  bool ends_update() const;
  /// Updates weights, loss scale and EMA, and clears the gradients.
  /// `look`  is called while the gradients that the optimiser used, unscaled and clipped, are in
  ///         memory; it is not called if a CUDA graph made the step
  /// throws: LossScaleError (GradScaler::update); what Optimizer::step() throws.
  void update(const std::function<void()>& look = {});
  /// Drops the batches since the last update and clears the gradients.
  void discard();

  /// True if a CUDA graph made the batch's backward pass. If the batch ends an update, the graph
  /// has made the update, too.
  bool launched() const;
  /// The number of batches since the last update.
  int64_t batches() const;

  optim::GradScaler& scaler();
  optim::Optimizer& optimizer();
  /// Null for one process.
  distributed::DistributedDataParallel* parallel();
  /// The CUDA graphs of the steps; null if steps are not captured. Other work with the same
  /// weights, such as an evaluation, may use this object, too. Such work must pass a kind below 0
  /// to StepGraphs::takes(), so that its CUDA graphs are not taken for those of steps.
  cuda::StepGraphs* graphs();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace lathe::train
