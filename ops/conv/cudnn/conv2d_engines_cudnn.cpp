// Conv2dEngines: lists cuDNN's engines for a convolution, makes their plans, times and runs them.
// Contracts: conv2d_engines_cudnn.h.
#include "lathe/ops/conv/cudnn/conv2d_engines_cudnn.h"

#include <algorithm>
#include <array>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/error.h"
#include "lathe/core/gpu/cudnn_handle.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/ops/plans/lru_cache.h"

namespace lathe::cuda {

namespace {

using PreparedKeys = LruMap<ConvKey, Conv2dPrepared, ConvKeyHash>;

PreparedKeys& keys_of_thread(Device device) {
  constexpr size_t kKeys = 1024;  // a plan takes about 200 kB of host memory
  thread_local std::array<std::optional<PreparedKeys>, kMaxDevices> t_owned;
  return t_owned[static_cast<size_t>(device.index)].emplace(kKeys);
}

}  // namespace

Conv2dPrepared& conv2d_prepared(const ConvKey& key, Device device) {
  thread_local std::array<PreparedKeys*, kMaxDevices> t_keys{};
  PreparedKeys*& keys = t_keys.at(static_cast<size_t>(device.index));
  if (keys == nullptr) {
    cudnn::handle(device);  // before the plans, so that it outlives them
    keys = &keys_of_thread(device);
  }
  Conv2dPrepared* const known = keys->find(key);
  return known != nullptr ? *known : keys->add(key, {});
}

Conv2dEngines::Conv2dEngines(const ConvKey& key, const Conv2dOperands& operands,
                             Conv2dPrepared& prepared)
    : key_(key), operands_(operands), prepared_(prepared), device_(operands.x.device()) {
  if (prepared_.graph == nullptr) {
    prepared_.graph =
        std::make_shared<const cudnn::OperationGraph>(conv2d_graph(key, cudnn::handle(device_)));
  }
}

Conv2dEngines::~Conv2dEngines() = default;

std::vector<ConvEngineInfo> Conv2dEngines::suggested(ConvHeuristic heuristic) {
  return conv2d_suggested(*prepared_.graph, heuristic, found_);
}

cudnn::ExecutionPlan& Conv2dEngines::plan(const ConvEngine& engine) {
  for (auto& [name, plan] : prepared_.plans) {
    if (name == engine) return plan;
  }
  LATHE_CHECK(StateError, !capturing(),
              "conv2d: this thread has not run this convolution before, and its code cannot be "
              "loaded while a graph is captured; run the step once before the capture (",
              key_, ")");
  auto found = found_.extract(engine);
  cudnn::EngineConfig config =
      found ? std::move(found.mapped())
            : cudnn::engine_config(*prepared_.graph, engine.index, engine.setting);
  cudnn::ExecutionPlan plan(device_, prepared_.graph, std::move(config));
  return prepared_.plans.emplace_back(engine, std::move(plan)).second;
}

int64_t Conv2dEngines::prepare(const ConvEngine& engine) { return plan(engine).workspace_bytes(); }

ConvTime Conv2dEngines::time(const ConvEngine& engine, int runs) {
  if (!copies_) copies_.emplace(key_.pass, operands_);
  return time_graph(engine, runs, *copies_, [](const Conv2dOperands&) {});
}

ConvTime Conv2dEngines::time_graph(const ConvEngine& engine, int runs, Conv2dTimingCopies& copies,
                                   FunctionRef<void(const Conv2dOperands&)> after) {
  cudnn::ExecutionPlan& ready = plan(engine);
  const cudnn::ExecutionPlan::Uses before = ready.uses();
  try {
    const Workspace workspace(ready.workspace_bytes(), device_);  // outlives the graph
    const ConvTime time = conv2d_time_graph(copies.pool(), device_, runs, [&] {
      const Conv2dOperands& operands = copies.next();
      ready.execute(Conv2dBindings(operands).get(), workspace.get());
      after(operands);
    });
    ready.settle(before);
    return time;
  } catch (const CudaError&) {
    cudaGetLastError();
    throw;
  }
}

void Conv2dEngines::execute(const ConvEngine& engine) {
  copies_.reset();
  cudnn::ExecutionPlan& ready = plan(engine);
  const Workspace workspace(ready.workspace_bytes(), device_);
  ready.execute(Conv2dBindings(operands_).get(), workspace.get());
  if (prepared_.plans.size() > 1) {
    std::erase_if(prepared_.plans, [&](const auto& made) { return made.first != engine; });
  }
}

int64_t Conv2dEngines::available_bytes() { return static_cast<int64_t>(available_memory(device_)); }

bool Conv2dEngines::capturing() { return is_capturing(current_stream(device_)); }

}  // namespace lathe::cuda
