// Plans for described GPUs. Contracts: cudnn_described.h.
#include "lathe/core/gpu/cudnn_described.h"

#include "lathe/core/error.h"

namespace lathe::cudnn {

Descriptor device_properties(const GpuDescription& gpu) {
  constexpr size_t kFirst = 90800;
  const size_t loaded = functions().cudnnGetVersion();
  LATHE_CHECK(CudaError, loaded >= kFirst, "cudnn: plans for a described GPU need cuDNN ",
              version_text(kFirst), " or later, but ", version_text(loaded), " was loaded");
  Descriptor properties(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  properties.set_array(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, std::span<const char>(gpu.json));
  properties.finalize();
  return properties;
}

Descriptor plan_for(const EngineConfig& config, const Descriptor& gpu) {
  Descriptor plan(CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, gpu);
  plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config.descriptor);
  plan.finalize();
  return plan;
}

}  // namespace lathe::cudnn
