// <cuda_runtime.h> for the host compiler: what core/gpu/launch.h finds by this name in a build
// without nvcc.
#pragma once

#include "lathe/tests/emulation/cuda_emulation.h"
#include "lathe/tests/emulation/cuda_runtime_emulation.h"
