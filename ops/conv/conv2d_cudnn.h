// What conv2d_cudnn.cpp is built on: a convolution as an operation graph of cuDNN
// (conv2d_graph_cudnn.cpp), and cuDNN's engines for it as the search sees them
// (conv2d_engines_cudnn.cpp). For *_cudnn.cpp files only.
#pragma once

#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "lathe/core/gpu/cudnn_plan.h"
#include "lathe/core/tensor.h"
#include "lathe/ops/backoff.h"
#include "lathe/ops/conv_search/conv_engines.h"
#include "lathe/ops/conv_search/conv_key.h"
#include "lathe/ops/conv_search/conv_search.h"

namespace lathe::cuda {

/// The tensors of one call, dense in the key's order. Which of x, w and y is written depends on the
/// pass.
struct Conv2dOperands {
  Tensor x, w, y;  // or their gradients
  Tensor bias;     // undefined where the key has none
};

/// The graph of the key's convolution, finalized. Without a handle it can be inspected but not
/// computed. Its tensors have the uids below.
/// throws: ShapeError with cuDNN's reason.
cudnn::OperationGraph conv2d_graph(const ConvKey& key, cudnnHandle_t handle = nullptr);

enum Conv2dUid : int64_t { kUidX = 1, kUidW, kUidY, kUidBias, kUidSum };

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

  std::vector<ConvCandidate> candidates() override;
  int64_t prepare(const ConvEngine& engine) override;
  double time_ms(const ConvEngine& engine) override;
  void execute(const ConvEngine& engine) override;
  int64_t available_bytes() override;
  bool capturing() override;

 private:
  cudnn::ExecutionPlan& plan(const ConvEngine& engine);
  void run(const ConvEngine& engine, void* output);

  const ConvKey& key_;
  const Conv2dOperands& operands_;
  Conv2dPrepared& prepared_;
  const Device device_;
  std::map<ConvEngine, cudnn::EngineConfig> found_;  // by candidates(), not yet made ready
};

}  // namespace lathe::cuda
