// What conv2d_cudnn.cpp is built on: cuDNN's engines for a convolution (conv2d_graph_cudnn.h) as
// the search uses them on a GPU (conv2d_engines_cudnn.cpp, conv2d_timing_cudnn.cpp). For
// *_cudnn.cpp files only.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/function_ref.h"
#include "lathe/core/gpu/cudnn_plan.h"
#include "lathe/core/gpu/workspace.h"
#include "lathe/core/tensor.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/conv/cudnn/conv2d_graph_cudnn.h"
#include "lathe/ops/conv/search/conv_engines.h"
#include "lathe/ops/conv/search/conv_key.h"
#include "lathe/ops/conv/search/conv_search.h"
#include "lathe/ops/plans/backoff.h"

namespace lathe::cuda {

/// A tensor of a fused graph beside x, w and y (FusedUid).
struct FusedOperand {
  int64_t uid = 0;
  Tensor tensor;
  bool is_written = false;
};

/// The tensors of one call, dense in the key's order. Which of x, w and y is written depends on the
/// pass.
struct Conv2dOperands {
  Tensor x, w, y;                        // or their gradients
  Tensor bias = {};                      // undefined where the key has none
  std::vector<FusedOperand> fused = {};  // none where the key has no fusion
};

Conv2dUid conv2d_output_uid(ConvPass pass);

/// The key of a call with these operands, on their device.
ConvKey conv2d_key_of(ConvPass pass, const Conv2dGeometry& sizes, MemoryFormat format,
                      const Conv2dOperands& operands);

/// The uid and address of each tensor of a call, without an allocation.
class Conv2dBindings {
 public:
  explicit Conv2dBindings(const Conv2dOperands& operands);
  std::span<cudnn::Binding> get() { return {tensors_.data(), count_}; }

 private:
  static constexpr size_t kMost = 24;  // with two norms

  std::array<cudnn::Binding, kMost> tensors_;
  size_t count_ = 0;
};

/// What a thread keeps of a key on a device from call to call. Two threads must not use one plan at
/// the same time, so each thread has its own.
struct Conv2dPrepared {
  using Plans = std::vector<std::pair<ConvEngine, cudnn::ExecutionPlan>>;

  std::shared_ptr<const cudnn::OperationGraph> graph;  // made by the first Conv2dEngines
  Plans plans;      // after an execution only the plan that was executed
  ConvMemo memo;    // of conv_search()
  Backoff backoff;  // from cuDNN, where it could not compute the key
};

/// This thread's entry for the key. Once it exists it is found without lock or allocation. The
/// thread keeps the entries of the latest 1024 keys that it asked for on each device.
Conv2dPrepared& conv2d_prepared(const ConvKey& key, Device device);

/// What runs that are only timed read and write: an output of their own and, where a layer is
/// small, copies of all its tensors, as many as fill the L2 cache twice. The runs take them by
/// turns. With the same memory for each run a small layer would be timed out of the cache, but in a
/// training step other layers come between.
class Conv2dTimingCopies {
 public:
  /// Queues the copying on the current stream. Where there is no memory for copies, only the output
  /// is apart.
  /// throws: OutOfMemoryError if there is none for the output either; CudaError.
  Conv2dTimingCopies(ConvPass pass, const Conv2dOperands& operands);

  /// The tensors for the next run. They live as long as this object.
  const Conv2dOperands& next();
  /// An empty graph, whose pool serves all graphs of timed runs, one at a time.
  const Graph& pool();

 private:
  void copy_all(ConvPass pass, const Conv2dOperands& operands, int64_t count);

  std::optional<Workspace> memory_;
  std::optional<Graph> pool_;
  std::vector<Conv2dOperands> copies_;
  size_t next_ = 0;
};

/// The time of one of `runs` runs on the device, without what the host takes to queue them: they
/// are one captured graph, which is launched behind a first launch of itself. Before the capture
/// `run` runs once, which finds its algorithms and loads its code. Where nothing can be captured
/// (LATHE_NO_CACHE=1) the runs are queued one by one. Waits for the device. The graph takes its
/// memory from the pool of `pool`. A pool of its own would stay reserved when the graph is gone.
/// throws: what `run` throws.
ConvTime conv2d_time_graph(const Graph& pool, Device device, int runs, FunctionRef<void()> run);

/// The engines for one call; see conv_engines.h.
class Conv2dEngines final : public ConvEngines {
 public:
  /// All three must outlive this object; `prepared` belongs to the key.
  /// throws: ShapeError where cuDNN refuses the graph; CudaError.
  Conv2dEngines(const ConvKey& key, const Conv2dOperands& operands, Conv2dPrepared& prepared);
  ~Conv2dEngines() override;

  std::vector<ConvCandidate> candidates(ConvHeuristic heuristic) override;
  int64_t prepare(const ConvEngine& engine) override;
  ConvTime time(const ConvEngine& engine, int runs) override;
  /// The time of the engine with `after` behind it, by conv2d_time_graph().
  ConvTime time_graph(const ConvEngine& engine, int runs, Conv2dTimingCopies& copies,
                      FunctionRef<void(const Conv2dOperands&)> after);
  void execute(const ConvEngine& engine) override;
  int64_t available_bytes() override;
  bool capturing() override;

 private:
  cudnn::ExecutionPlan& plan(const ConvEngine& engine);
  static void run(cudnn::ExecutionPlan& ready, const Conv2dOperands& operands);

  const ConvKey& key_;
  const Conv2dOperands& operands_;
  Conv2dPrepared& prepared_;
  const Device device_;
  Conv2dConfigs found_;                       // by candidates(), not yet made ready
  std::optional<Conv2dTimingCopies> copies_;  // from the first timing to the execution
};

}  // namespace lathe::cuda
