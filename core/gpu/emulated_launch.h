// What starts kernels that the host's compiler has compiled must offer beyond the CUDA runtime's
// own names: tests/emulation/ implements it. Nothing of it is called where nvcc compiles.
#pragma once

namespace lathe::emulation {

/// From now on the kernel is held to the promise of dependent_launch.cuh: each of its threads
/// begins with after_previous_kernel(), whatever LATHE_UNMEASURED says. Thread-safe.
void expect_wait(void (*kernel)());
/// Of the thread that runs now.
void after_previous_kernel() noexcept;

}  // namespace lathe::emulation
