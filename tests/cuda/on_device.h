// How kernel tests get their tensors onto the device that runs the kernels. In a build without the
// CUDA backend the kernels run on host tensors.
#pragma once

#include "../cuda_case.h"
#include "../ops/compare.h"
#include "../same_memory.h"

namespace lathe::test {

inline Device kernel_device() { return kHasCuda ? Device(DeviceType::kCUDA) : kCPU; }

/// `t` where kernels of namespace cuda can read and write it, strides and overlaps kept.
inline Tensor on_device(const Tensor& t) {
  return kHasCuda ? same_memory_on(kernel_device(), t) : t;
}

/// `t` with its values readable by the host, all kernels on it done.
inline Tensor on_host(const Tensor& t) { return t.to(kCPU); }

}  // namespace lathe::test

// Every file that includes this belongs to the suite: skipped where the build has the backend and
// the machine no GPU.
TEST_SUITE_BEGIN("kernels" * lathe::test::kernel_case());
