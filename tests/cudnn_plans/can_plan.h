// What the tests of plans share: whether there is a library to ask.
#pragma once

#include "lathe/core/error.h"
#include "lathe/core/gpu/cudnn_described.h"

namespace lathe::test {

/// True if there is a cuDNN that can plan for described GPUs.
inline bool can_plan() {
  try {
    cudnn::device_properties(gpu_description("h200"));
    return true;
  } catch (const NoCudaError&) {
    return false;
  }
}

}  // namespace lathe::test
