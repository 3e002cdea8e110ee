// Kernels that promise to wait for the kernel before them (core/gpu/dependent_launch.cuh). Whatever
// LATHE_UNMEASURED says, each of their threads must begin with after_previous_kernel(): a thread
// that ends without, and one that uses memory of the device before, is a StateError that names it.
#pragma once

namespace lathe::emulation {

/// From now on the kernel is held to its promise. Thread-safe.
void expect_wait(void (*kernel)());
/// Whether the kernel is. Thread-safe.
bool must_wait(void (*kernel)());
/// Of the thread that runs now.
void after_previous_kernel() noexcept;

}  // namespace lathe::emulation
