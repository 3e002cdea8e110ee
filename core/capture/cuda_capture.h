// cuda::capture(): a step as a callable that records itself into a CUDA graph and then launches
// that. It checks what a graph takes for granted. The graph alone is in core/capture/cuda_graph.h.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/tensor.h"

namespace lathe::cuda {

struct CaptureOptions {
  // Calls that run the step as ever before it is recorded: they make the optimiser's memory, and
  // find the algorithms of convolutions.
  int eager_calls = 2;
  // What the step reads and writes besides its inputs, such as weights: that it still has the
  // memory that it had is checked at each call. Other tensors must live, with their memory, as
  // long as the step is called.
  Tensors state = {};
};

/// Made by capture(). Not thread-safe.
class LATHE_API CapturedStep {
 public:
  using Step = std::function<Tensors(const Tensors& inputs)>;

  /// throws: ValueError for an empty step or fewer than 0 eager calls.
  CapturedStep(Step step, const CaptureOptions& options);
  ~CapturedStep();
  CapturedStep(CapturedStep&&) noexcept;
  CapturedStep& operator=(CapturedStep&&) noexcept;

  /// One step. The inputs are copied into those that the graph reads; so they may be other tensors
  /// each time, of the same shapes and dtypes on the same GPU. Calls may be made on different
  /// streams: each waits on the GPU for the launch before. The outputs of a launch have no
  /// history of autograd; they are the same tensors each time, and keep their values until the
  /// next call.
  /// throws: ValueError without inputs, or for another number of inputs than at the first call;
  /// ShapeError, DTypeError or DeviceError for one that differs from that of the first call, or
  /// that is not on a GPU; StateError if a tensor of the state has other memory than when the step
  /// was recorded. Then nothing has run.
  /// In the call that records: StateError where the step waits for the GPU, as item() does, with
  /// the op, the layer and the line of the program; what Graph::capture() throws; any error of the
  /// step. Then nothing has run on the GPU, tensors that the step made or changed
  /// hold no meaningful values, and the next call records again. Gradients are such tensors: before
  /// the next call, remove them (zero_grad()), and set back what else the step keeps from call to
  /// call.
  const Tensors& operator()(const Tensors& inputs);

  /// Whether calls launch a graph.
  bool is_captured() const noexcept;
  /// Kernels, copies and fills of a launch; 0 before it is captured.
  size_t size() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// A callable for a step that does the same work on inputs of the same shapes: the first calls run
/// it, the next one records it (Graph::capture), and from then on calls launch the graph. A step
/// trains bit by bit as if it ran, if its optimiser is set_capturable().
///
///   auto step = cuda::capture([&](const Tensors& in) {
///     Tensor loss = cross_entropy(model(in[0]), in[1]);
///     loss.backward();
///     optimizer.step();
///     optimizer.zero_grad();
///     return Tensors{loss};
///   }, {.state = model.parameters()});
///   for (auto& [x, y] : batches) Tensor loss = step({x, y})[0];
LATHE_API CapturedStep capture(CapturedStep::Step step, const CaptureOptions& options = {});

}  // namespace lathe::cuda
