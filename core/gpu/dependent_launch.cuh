// A kernel whose blocks the GPU starts while the kernel before it ends: programmatic dependent
// launch. It hides what a launch costs the GPU. For .cu files.
//
//   __global__ void scale_kernel(float* y, …) {
//     after_previous_kernel();
//     …
//   }
//   launch_dependent(scale_kernel, grid, block, 0, stream, y, …);
#pragma once

#include <utility>

#include "lathe/core/gpu/emulated_launch.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/core/unmeasured.h"

namespace lathe {

/// The first statement of a kernel that launch_dependent() starts, for all of its threads. It waits
/// until the work before the kernel is done and its results can be read. From then on the kernel
/// behind may be started. Does nothing in a kernel that was started by launch().
/// Note: a kernel that reads or writes memory before it would race with the kernel before. The
/// emulation finds that.
/// ref: CUDA C++ Programming Guide, "Programmatic Dependent Launch and Synchronization".
__device__ inline void after_previous_kernel() {
#if defined(__CUDA_ARCH__)
#  if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#  endif
#elif !defined(LATHE_WITH_CUDA) || defined(LATHE_CUDA_EMULATED)
  emulation::after_previous_kernel();
#endif
}

#if defined(LATHE_WITH_CUDA) && !defined(LATHE_CUDA_EMULATED)

namespace detail {

/// A launch for cudaLaunchKernelEx. Not part of launch_dependent(), which is compiled for each of
/// several thousand kernels.
class DependentLaunch {
 public:
  DependentLaunch(const void* kernel, dim3 grid, dim3 block, size_t shared_bytes, Stream stream);
  DependentLaunch(const DependentLaunch&) = delete;
  DependentLaunch& operator=(const DependentLaunch&) = delete;

  const cudaLaunchConfig_t* config() const { return &config_; }

 private:
  cudaLaunchAttribute early_ = {};
  cudaLaunchConfig_t config_ = {};  // may point at early_
};

}  // namespace detail

/// As launch(). With Unmeasured::kDependentLaunch the kernel need not wait for its start until the
/// kernel before has ended, where its code can wait for that itself.
template <class... Parameters, class... Arguments>
void launch_dependent(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                      Stream stream, Arguments&&... arguments) {
  const detail::DependentLaunch how(reinterpret_cast<const void*>(kernel), grid, block,
                                    shared_bytes, stream);
  detail::check_launch(
      cudaLaunchKernelEx(how.config(), kernel, static_cast<Parameters>(arguments)...));
}

#else

template <class... Parameters, class... Arguments>
void launch_dependent(void (*kernel)(Parameters...), dim3 grid, dim3 block, size_t shared_bytes,
                      Stream stream, const Arguments&... arguments) {
  emulation::expect_wait(reinterpret_cast<void (*)()>(kernel));
  launch(kernel, grid, block, shared_bytes, stream, arguments...);
}

#endif

}  // namespace lathe
