// The search of `lathe find-batch` for the largest batch, and the memory that a device has for it.
#pragma once

#include <cstdint>

#include "lathe/core/device.h"
#include "lathe/core/function_ref.h"

namespace lathe::cli {

/// The largest n from 1 to `most` for which fits(n), if every n below one that fits also fits.
/// Doubles n from 1 until it does not fit, then halves the gap until it is at most a 32nd of the
/// answer (or 1).   → 0 if not even 1 fits
int64_t largest_that_fits(int64_t most, FunctionRef<bool(int64_t)> fits);

/// What tensors may have of the bytes that a process on a CPU can still get. The rest, a tenth and
/// no less than 96 MiB, is for libraries, their code and their threads.   → 0 if nothing is left
int64_t tensors_within(int64_t available);

/// The memory that tensors on the device may have, what they have already included; 0: unknown.
int64_t memory_for_tensors(Device device);

}  // namespace lathe::cli
