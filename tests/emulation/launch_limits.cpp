// See launch_limits.h.
#include "launch_limits.h"

namespace lathe::emulation {
namespace {

bool within(dim3 size, dim3 most) {
  return size.x >= 1 && size.y >= 1 && size.z >= 1 && size.x <= most.x && size.y <= most.y &&
         size.z <= most.z;
}

}  // namespace

cudaError_t launch_problem(dim3 grid, dim3 block, size_t dynamic_shared_bytes) {
  if (!within(grid, kMostOfGrid) || !within(block, kMostOfBlock) ||
      size_t{block.x} * block.y * block.z > kMostThreads) {
    return cudaErrorInvalidConfiguration;
  }
  return dynamic_shared_bytes > kMostSharedBytes ? cudaErrorInvalidValue : cudaSuccess;
}

}  // namespace lathe::emulation
