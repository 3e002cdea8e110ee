// Kernels that promise to wait for the kernel before them (core/gpu/dependent_launch.cuh). Whatever
// LATHE_UNMEASURED says, each of their threads must begin with after_previous_kernel(): a thread
// that ends without, and one that uses memory of the device before, is a StateError that names it.
#pragma once

#include "lathe/core/gpu/emulated_launch.h"

namespace lathe::emulation {

/// Whether the kernel is held to its promise (expect_wait()). Thread-safe.
bool must_wait(void (*kernel)());

}  // namespace lathe::emulation
