// cuda::capture(): makes a callable from a step. The callable records the step into a CUDA graph
// and then launches the graph. It checks the conditions under which a graph may be launched.
// core/capture/cuda_graph.h has the graph without these checks.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/tensor.h"

namespace lathe::cuda {

struct CaptureOptions {
  // Calls that run the step normally before the call that records it. They allocate the optimiser's
  // memory and choose the algorithms of convolutions.
  int eager_calls = 2;
  // Tensors that the step reads and writes besides its inputs, such as weights. Each call checks
  // that they still have the same memory. Any other tensor that the step uses must keep its memory
  // as long as the step is called.
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

  /// Runs one step. Copies the inputs into memory that the graph reads, so they may be other
  /// tensors each time, of the same shapes and dtypes on the same GPU. Calls may be made on
  /// different streams: on the GPU, each launch waits for the previous one. The outputs of a launch
  /// have no autograd history. They are the same tensors each time, and keep their values until the
  /// next call.
  /// throws: ValueError without inputs, or for another number of inputs than at the first call;
  /// ShapeError, DTypeError or DeviceError for an input that differs from that of the first call or
  /// is not on a GPU; StateError if a tensor of the state no longer has the memory that it had when
  /// the step was recorded. After any of these errors, nothing has run.
  /// The call that records also throws StateError if the step waits for the GPU, as item() does;
  /// the message names the op, the layer and the line of the program. It also throws the errors of
  /// Graph::capture() and of the step. Then nothing has run on the GPU, and the next call records
  /// again. Tensors that the step made or changed hold no meaningful values, gradients included.
  /// Before the next call, remove the gradients (zero_grad()), and restore all else that the step
  /// keeps from call to call.
  const Tensors& operator()(const Tensors& inputs);

  /// True if calls launch a CUDA graph.
  bool is_captured() const noexcept;
  /// Kernels, copies and fills of a launch; 0 before it is captured.
  size_t size() const noexcept;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Makes a callable from a step that does the same work each time, on inputs of the same shapes.
/// The first calls run the step, the next one records it (Graph::capture), and from then on calls
/// launch the graph. Training gives the same bits as without a CUDA graph if the optimiser is
/// set_capturable().
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
