// Asking cuDNN's heuristics for configurations, making plans and executing them.
#include "lathe/core/gpu/cudnn_plan.h"

#include <algorithm>
#include <iterator>

#include "lathe/core/cuda_backend.h"
#include "lathe/core/error.h"
#include "lathe/core/gpu/cudnn_retired.h"

namespace lathe::cudnn {

bool EngineConfig::has(cudnnBackendNumericalNote_t note) const {
  return std::ranges::find(numerical_notes, note) != numerical_notes.end();
}
bool EngineConfig::has(cudnnBackendBehaviorNote_t note) const {
  return std::ranges::find(behavior_notes, note) != behavior_notes.end();
}

namespace {

EngineConfig describe(Descriptor descriptor) {
  EngineConfig config{.descriptor = std::move(descriptor)};
  const std::vector<Descriptor> engines = config.descriptor.get_descriptors(
      CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR, 1);
  LATHE_CHECK(CudaError, !engines.empty(), "cudnn: a configuration names no engine");
  const Descriptor& engine = engines.front();
  config.engine = engine.get<int64_t>(CUDNN_ATTR_ENGINE_GLOBAL_INDEX);
  config.numerical_notes = engine.get_array<cudnnBackendNumericalNote_t>(
      CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_NUMERICAL_NOTE_TYPE_COUNT);
  config.behavior_notes = engine.get_array<cudnnBackendBehaviorNote_t>(
      CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT);
  for (const Descriptor& knob : config.descriptor.get_descriptors(
           CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR,
           CUDNN_KNOB_TYPE_COUNTS)) {
    const auto type = knob.get<cudnnBackendKnobType_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE);
    config.knobs.emplace_back(static_cast<int64_t>(type),
                              knob.get<int64_t>(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE));
  }
  try {
    config.workspace_bytes = config.descriptor.get<int64_t>(CUDNN_ATTR_ENGINECFG_WORKSPACE_SIZE);
  } catch (const CudaError&) {  // cuDNN before 9.2: only the plan will tell
  }
  return config;
}

std::vector<EngineConfig> configs_of(const OperationGraph& graph, cudnnBackendHeurMode_t mode) {
  Descriptor heuristic(CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph.get());
  heuristic.set(CUDNN_ATTR_ENGINEHEUR_MODE, mode);
  heuristic.finalize();
  std::vector<EngineConfig> configs;
  for (Descriptor& found :
       heuristic.get_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
                                 heuristic.count_descriptors(CUDNN_ATTR_ENGINEHEUR_RESULTS))) {
    configs.push_back(describe(std::move(found)));
  }
  return configs;
}

}  // namespace

std::vector<EngineConfig> heuristic_configs(const OperationGraph& graph) {
  std::vector<EngineConfig> all;
  for (const auto mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    try {
      std::ranges::move(configs_of(graph, mode), std::back_inserter(all));
    } catch (const CudaError&) {  // this heuristic does not know such graphs; the other may
    }
  }
  return all;
}

EngineConfig engine_config(const OperationGraph& graph, int64_t engine, EngineConfig::Knobs knobs) {
  EngineConfig config{.descriptor = Descriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR),
                      .engine = engine,
                      .knobs = std::move(knobs)};
  config.parts.reserve(config.knobs.size() + 1);
  std::vector<cudnnBackendDescriptor_t> choices;
  for (const auto& [type, value] : config.knobs) {
    Descriptor& choice = config.parts.emplace_back(CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR);
    choice.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE, static_cast<cudnnBackendKnobType_t>(type));
    choice.set(CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE, value);
    choice.finalize();
    choices.push_back(choice.object());
  }
  Descriptor& chosen = config.parts.emplace_back(CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  chosen.set(CUDNN_ATTR_ENGINE_OPERATION_GRAPH, graph.get());
  chosen.set(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, engine);
  chosen.finalize();
  config.descriptor.set(CUDNN_ATTR_ENGINECFG_ENGINE, chosen);
  if (!choices.empty()) {
    config.descriptor.set_objects(CUDNN_ATTR_ENGINECFG_KNOB_CHOICES, choices);
  }
  config.descriptor.finalize();
  return config;
}

ExecutionPlan::ExecutionPlan(Device device, std::shared_ptr<const OperationGraph> graph,
                             EngineConfig config) {
  destroy_retired_plans(device);
  parts_ = std::make_unique<PlanParts>(device, std::move(graph), std::move(config));
  Descriptor& plan = parts_->plan;
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, handle(device));
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, parts_->config.descriptor);
  plan.finalize();
  workspace_bytes_ = plan.get<int64_t>(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE);
}

ExecutionPlan::~ExecutionPlan() { retire(); }
ExecutionPlan::ExecutionPlan(ExecutionPlan&&) noexcept = default;

ExecutionPlan& ExecutionPlan::operator=(ExecutionPlan&& other) noexcept {
  if (this == &other) return *this;
  retire();
  parts_ = std::move(other.parts_);
  workspace_bytes_ = other.workspace_bytes_;
  packs_ = std::move(other.packs_);
  oldest_pack_ = other.oldest_pack_;
  in_use_ = other.in_use_;
  was_captured_ = other.was_captured_;
  return *this;
}

void ExecutionPlan::retire() noexcept {
  if (parts_ != nullptr && in_use_) retire_plan(std::move(parts_), was_captured_);
}

const Descriptor& ExecutionPlan::pack_for(std::span<const Binding> tensors, void* workspace) {
  for (const Pack& pack : packs_) {
    if (pack.workspace == workspace && std::ranges::equal(pack.tensors, tensors)) {
      return pack.descriptor;
    }
  }
  std::vector<int64_t> uids;
  std::vector<void*> addresses;
  for (const auto& [uid, address] : tensors) {
    uids.push_back(uid);
    addresses.push_back(address);
  }
  Pack pack{{tensors.begin(), tensors.end()},
            workspace,
            Descriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR)};
  pack.descriptor.set_array(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, std::span<const int64_t>(uids));
  pack.descriptor.set_array(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
                            std::span<void* const>(addresses));
  pack.descriptor.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, workspace);
  pack.descriptor.finalize();
  if (packs_.size() < kPacks) return packs_.emplace_back(std::move(pack)).descriptor;
  Pack& replaced = packs_[oldest_pack_];
  oldest_pack_ = (oldest_pack_ + 1) % kPacks;
  replaced = std::move(pack);
  return replaced.descriptor;
}

void ExecutionPlan::execute(std::span<const Binding> tensors, void* workspace) {
  const Descriptor& pack = pack_for(tensors, workspace);
  const cudnnHandle_t on = handle(parts_->device);
  if (!was_captured_) was_captured_ = cuda::is_capturing(current_stream(parts_->device));
  in_use_ = true;  // before the call: a failed one may have queued something
  const cudnnStatus_t status =
      functions().cudnnBackendExecute(on, parts_->plan.object(), pack.object());
  if (status != CUDNN_STATUS_SUCCESS) check(status, "execute a plan");
}

}  // namespace lathe::cudnn
