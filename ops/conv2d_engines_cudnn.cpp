// cuDNN's engines for a convolution; see conv2d_cudnn.h.
#include "lathe/core/cuda_backend.h"
#include "lathe/core/device_scope.h"
#include "lathe/core/launch.h"
#include "lathe/ops/conv2d_cudnn.h"
#include "lathe/ops/lru_cache.h"

namespace lathe::cuda {

/// What a thread keeps of a key on a device.
struct Conv2dEngines::Prepared {
  Prepared(const ConvKey& key, cudnnHandle_t handle) : graph(conv2d_graph(key, handle)) {}

  cudnn::OperationGraph graph;
  std::map<ConvEngine, cudnn::ExecutionPlan> plans;
};

namespace {

/// A tensor of bytes; on the current stream, as all memory.
Tensor scratch(int64_t bytes, Device device) {
  return empty({bytes}, {.dtype = kU8, .device = device});
}

ConvCandidate candidate_of(const cudnn::EngineConfig& config) {
  return {.engine = {config.engine, config.knobs},
          .workspace_bytes = config.workspace_bytes,
          .deterministic = !config.has(CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC),
          .tensor_cores = config.has(CUDNN_NUMERICAL_NOTE_TENSOR_CORE),
          .down_converts = config.has(CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS),
          .narrow_sums = config.has(CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION),
          .compiles = config.has(CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION)};
}

const Tensor& output_of(const ConvKey& key, const Conv2dOperands& operands) {
  switch (key.pass) {
    case ConvPass::kForward: return operands.y;
    case ConvPass::kBackwardInput: return operands.x;
    case ConvPass::kBackwardWeight: break;
  }
  return operands.w;
}

Conv2dUid output_uid(ConvPass pass) {
  switch (pass) {
    case ConvPass::kForward: return kUidY;
    case ConvPass::kBackwardInput: return kUidX;
    case ConvPass::kBackwardWeight: break;
  }
  return kUidW;
}

}  // namespace

Conv2dEngines::Conv2dEngines(const ConvKey& key, const Conv2dOperands& operands)
    : key_(key), operands_(operands), device_(operands.x.device()) {
  // A plan takes some 200 kB of host memory. Plans are not for two threads at once, so each thread
  // has its own.
  constexpr size_t kKeys = 1024;
  const cudnnHandle_t handle =
      cudnn::handle(device_);  // before the plans, so that it outlives them
  thread_local LruCache<std::pair<int, ConvKey>, std::shared_ptr<Prepared>> cache(kKeys);
  prepared_ =
      *cache.get({device_.index, key}, [&] { return std::make_shared<Prepared>(key, handle); });
}

Conv2dEngines::~Conv2dEngines() = default;

std::vector<ConvCandidate> Conv2dEngines::candidates() {
  std::vector<ConvCandidate> all;
  for (cudnn::EngineConfig& config : cudnn::heuristic_configs(prepared_->graph)) {
    all.push_back(candidate_of(config));
    found_.try_emplace(all.back().engine, std::move(config));
  }
  return all;
}

const cudnn::ExecutionPlan& Conv2dEngines::plan(const ConvEngine& engine) {
  const auto made = prepared_->plans.find(engine);
  if (made != prepared_->plans.end()) return made->second;
  auto found = found_.extract(engine);
  cudnn::EngineConfig config =
      found ? std::move(found.mapped())
            : cudnn::engine_config(prepared_->graph, engine.index, engine.knobs);
  return prepared_->plans.try_emplace(engine, cudnn::handle(device_), std::move(config))
      .first->second;
}

void Conv2dEngines::run(const ConvEngine& engine, void* output) {
  const cudnn::ExecutionPlan& ready = plan(engine);
  const Conv2dUid written = output_uid(key_.pass);
  std::vector<cudnn::Binding> tensors;
  const auto bind = [&](Conv2dUid uid, const Tensor& t) {
    if (t.defined()) tensors.emplace_back(uid, uid == written ? output : t.raw_data());
  };
  bind(kUidX, operands_.x);
  bind(kUidW, operands_.w);
  bind(kUidY, operands_.y);
  bind(kUidBias, operands_.bias);
  bind(kUidResidual, operands_.residual);
  // Freed when the call returns, while the work is still queued: whoever gets the memory next uses
  // it on the same stream, after this.
  const Tensor workspace = scratch(ready.workspace_bytes(), device_);
  ready.execute(cudnn::handle(device_), tensors, workspace.raw_data());
}

int64_t Conv2dEngines::prepare(const ConvEngine& engine) { return plan(engine).workspace_bytes(); }

double Conv2dEngines::time_ms(const ConvEngine& engine) {
  const Tensor output = scratch(output_of(key_, operands_).bytes(), device_);
  const Stream stream = current_stream(device_);
  Event begin(device_, {.timing = true}), end(device_, {.timing = true});
  try {
    // The first run keeps the device busy while the second is queued, so that the time between the
    // events is the engine's and not that of the launch.
    run(engine, output.raw_data());
    begin.record(stream);
    run(engine, output.raw_data());
    end.record(stream);
    end.synchronize();
    return elapsed_ms(begin, end);
  } catch (const CudaError&) {
    cudaGetLastError();
    throw;
  }
}

void Conv2dEngines::execute(const ConvEngine& engine) {
  run(engine, output_of(key_, operands_).raw_data());
  std::erase_if(prepared_->plans, [&](const auto& made) { return made.first != engine; });
}

int64_t Conv2dEngines::available_bytes() { return static_cast<int64_t>(available_memory(device_)); }

bool Conv2dEngines::any_ready() const { return !prepared_->plans.empty(); }

bool Conv2dEngines::capturing() { return is_capturing(current_stream(device_)); }

}  // namespace lathe::cuda
