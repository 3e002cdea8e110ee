// cuDNN's plans for a GPU that is described (gpu_description.h) and need not be there. They take no
// handle and no driver, and cannot be executed. For cuDNN 9.8 and later.
#pragma once

#include "lathe/core/gpu/cudnn_config.h"
#include "lathe/core/machine/gpu_description.h"

namespace lathe::cudnn {

/// The description as cuDNN takes it.
/// throws: CudaError if the cuDNN that was loaded is older than 9.8 or refuses the description;
/// NoCudaError if none can be loaded.
Descriptor device_properties(const GpuDescription& gpu);

/// The plan of a configuration that was made for `gpu`, finalized.
/// throws: what check() throws.
Descriptor plan_for(const EngineConfig& config, const Descriptor& gpu);

}  // namespace lathe::cudnn
