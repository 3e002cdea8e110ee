// StepGraph: a training step on a GPU as one CUDA graph.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "lathe/core/cuda_graph.h"
#include "lathe/core/tensor.h"

namespace lathe::cli {

/// What a step reads and leaves.
struct StepTensors {
  Tensor x, y;          // the batch
  Tensor scores, loss;  // of it
};

/// Two batches of a shape are left to the caller, whose steps make what stays: optimisers' memory
/// and the choice of algorithms. The third is recorded. From then on batches of that shape are
/// copied into the graph and launched; others are left to the caller.
class StepGraph {
 public:
  /// The device work of a whole step, from its x and y to new weights. It sets scores and loss.
  using Work = std::function<void(StepTensors&)>;

  /// True if launch() takes this batch. Records `work` first if it is time for that. If that fails,
  /// every batch is left to the caller from then on, and problem() says why; `work` has been called
  /// in part then, and nothing has run on the GPU.
  bool takes(const Tensor& x, const Tensor& y, const Work& work);

  /// Copies the batch and launches the step. The results keep their values until the next launch.
  const StepTensors& launch(const Tensor& x, const Tensor& y);

  /// Why the step cannot be recorded; "" as long as nothing speaks against it.
  const std::string& problem() const { return problem_; }

 private:
  void record(const Tensor& x, const Tensor& y, const Work& work);

  int eager_ = 0;  // batches in a row that the caller ran and that have the shape of shape_
  Shape shape_;
  StepTensors tensors_;
  std::optional<cuda::Graph> graph_;  // after tensors_: its memory is theirs
  std::string problem_;
};

}  // namespace lathe::cli
