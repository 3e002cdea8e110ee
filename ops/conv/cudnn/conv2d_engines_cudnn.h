// cuDNN's engines for a convolution (conv2d_graph_cudnn.h) as the search uses them on a GPU. For
// *_cudnn.cpp files only.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "lathe/core/function_ref.h"
#include "lathe/core/gpu/cudnn_plan.h"
#include "lathe/ops/conv/cudnn/conv2d_graph_cudnn.h"
#include "lathe/ops/conv/cudnn/conv2d_operands_cudnn.h"
#include "lathe/ops/conv/cudnn/conv2d_timing_cudnn.h"
#include "lathe/ops/conv/search/conv_engines.h"
#include "lathe/ops/conv/search/conv_key.h"
#include "lathe/ops/conv/search/conv_search.h"
#include "lathe/ops/plans/backoff.h"

namespace lathe::cuda {

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

/// The engines for one call; see conv_engines.h.
class Conv2dEngines final : public ConvEngines {
 public:
  /// All three must outlive this object; `prepared` belongs to the key.
  /// throws: ShapeError where cuDNN refuses the graph; CudaError.
  Conv2dEngines(const ConvKey& key, const Conv2dOperands& operands, Conv2dPrepared& prepared);
  ~Conv2dEngines() override;

  std::vector<ConvEngineInfo> suggested(ConvHeuristic heuristic) override;
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

  const ConvKey& key_;
  const Conv2dOperands& operands_;
  Conv2dPrepared& prepared_;
  const Device device_;
  Conv2dConfigs found_;                       // by engines(), not yet made ready
  std::optional<Conv2dTimingCopies> copies_;  // from the first timing to the execution
};

}  // namespace lathe::cuda
