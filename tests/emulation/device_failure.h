// A device that fails for good, as after an illegal address: the context is lost, and with it what
// lies in the device's memory. And one that refuses a single launch.
#pragma once

#include "cuda_runtime_emulation.h"

namespace lathe::emulation {

/// The kernel that hits it, counted as kernels are queued, fails when it is run. Nothing that is
/// queued on any device runs from then on, and every call that a real device would refuse returns
/// cudaErrorLaunchFailure. LATHE_EMULATED_LIFE=n in the environment arms it with the n-th kernel of
/// the process.
FaultPoint& kernel_fault();

/// The same for the copies from a device to the host.
FaultPoint& copy_fault();

/// The kernel launch that hits it is refused, as one beyond the limits is, and nothing else happens.
FaultPoint& launch_fault();

/// Forgets what is queued, and that a device has failed. Memory stays as it is.
void replace_devices();

}  // namespace lathe::emulation
