// Timing a convolution on a GPU: the tensors that timed runs read and write, and the time of runs
// as one graph. For *_cudnn.cpp files only.
#pragma once

#include <optional>
#include <vector>

#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/function_ref.h"
#include "lathe/core/gpu/workspace.h"
#include "lathe/ops/conv/conv_pass.h"
#include "lathe/ops/conv/cudnn/conv2d_operands_cudnn.h"
#include "lathe/ops/conv/search/conv_engines.h"

namespace lathe::cuda {

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
  /// Waits for the device if a graph took memory from the pool.
  ~Conv2dTimingCopies();
  Conv2dTimingCopies(const Conv2dTimingCopies&) = delete;
  Conv2dTimingCopies& operator=(const Conv2dTimingCopies&) = delete;

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

/// The time of one of `runs` runs on the device, without what the host takes to queue them. They
/// are one captured graph, in which one more run precedes them. The graph is launched once, and
/// each of its runs is a call of `run`, which can take the next copies. Before the capture `run`
/// runs once: it finds its engines and loads its code. Where nothing can be captured
/// (LATHE_NO_CACHE=1) the runs are queued one by one. Waits for the device. The graph takes its
/// memory from the pool of `pool`: a pool of its own would stay reserved when the graph is gone.
/// throws: what `run` throws; CudaError if what it queues cannot be captured.
ConvTime conv2d_time_graph(const Graph& pool, Device device, int runs, FunctionRef<void()> run);

}  // namespace lathe::cuda
