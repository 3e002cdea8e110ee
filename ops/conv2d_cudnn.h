// What conv2d_cudnn.cpp stands on: a convolution as an operation graph of cuDNN
// (conv2d_graph_cudnn.cpp), and cuDNN's engines for it as the search sees them
// (conv2d_engines_cudnn.cpp). For *_cudnn.cpp.
#pragma once

#include <map>
#include <memory>

#include "lathe/core/cudnn_plan.h"
#include "lathe/core/tensor.h"
#include "lathe/ops/conv_engines.h"
#include "lathe/ops/conv_key.h"

namespace lathe::cuda {

/// The tensors of one call, dense in the key's order. Which of x, w and y is written depends on the
/// pass.
struct Conv2dOperands {
  Tensor x, w, y;         // or their gradients
  Tensor bias, residual;  // undefined where the key has none
};

/// The key's convolution, finalized; without a handle it can be looked at, but not computed. Its
/// tensors have the uids below.
/// throws: ShapeError with cuDNN's reason.
cudnn::OperationGraph conv2d_graph(const ConvKey& key, cudnnHandle_t handle = nullptr);

enum Conv2dUid : int64_t { kUidX = 1, kUidW, kUidY, kUidBias, kUidResidual, kUidVirtual };

/// The engines for one call; see conv_engines.h. Graphs and plans are kept per thread, device
/// and key: of the plans of a key, the one that was executed last.
class Conv2dEngines final : public ConvEngines {
 public:
  /// `key` and `operands` must outlive it.
  /// throws: ShapeError where cuDNN refuses the graph; CudaError.
  Conv2dEngines(const ConvKey& key, const Conv2dOperands& operands);
  ~Conv2dEngines() override;

  std::vector<ConvCandidate> candidates() override;
  int64_t prepare(const ConvEngine& engine) override;
  double time_ms(const ConvEngine& engine) override;
  void execute(const ConvEngine& engine) override;
  int64_t available_bytes() override;
  bool capturing() override;

  /// cuDNN has made a plan for the key, if not this time then earlier in this thread.
  bool any_ready() const;

 private:
  struct Prepared;
  const cudnn::ExecutionPlan& plan(const ConvEngine& engine);
  void run(const ConvEngine& engine, void* output);

  const ConvKey& key_;
  const Conv2dOperands& operands_;
  const Device device_;
  std::shared_ptr<Prepared> prepared_;               // of this thread
  std::map<ConvEngine, cudnn::EngineConfig> found_;  // by candidates(), not made ready yet
};

}  // namespace lathe::cuda
