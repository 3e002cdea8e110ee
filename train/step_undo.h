// StepUndo: takes back a step that ended before its update, because of an error or of another rank.
// The state is then once more the one after the step before it, and can be saved to go on from.
#pragma once

#include "lathe/core/state_dict.h"
#include "lathe/nn/module.h"
#include "lathe/train/tally.h"

namespace lathe::train {

/// Copies what a training's batches change before the update: the model's buffers (batch norm's
/// statistics), the states of the default generators, and the sums of the metrics. All of it is
/// small, on a CPU a copy takes some microseconds.
class LATHE_API StepUndo {
 public:
  /// The model must outlive it.
  explicit StepUndo(const nn::Module& model) : model_(model) {}

  /// Call before the first batch of a step. The training computes on the CPU.
  void begin(const Tally& window);
  /// The update begins: from here on the step cannot be taken back.
  void forget() { begun_ = false; }
  /// Gives back what begin() has copied, once.   → false if there is nothing to give back
  bool undo(Tally& window);

 private:
  const nn::Module& model_;
  bool begun_ = false;
  Tensors buffers_;
  StateDict random_, window_;
};

}  // namespace lathe::train
