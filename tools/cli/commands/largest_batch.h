// The search of `lathe find-batch` for the largest batch, and the memory that a device has for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lathe/core/device.h"
#include "lathe/core/function_ref.h"

namespace lathe::cli {

/// The largest n from 1 to `most` for which fits(n), if every n below one that fits also fits.
/// Doubles n from 1 until it does not fit, then halves the gap until it is at most a 32nd of the
/// answer (or 1).   → 0 if not even 1 fits
int64_t largest_that_fits(int64_t most, FunctionRef<bool(int64_t)> fits);

/// The memory that a process may use: the smaller of MemAvailable in /proc/meminfo and what the
/// control group leaves (memory.max - memory.current; "max" or nothing: no limit).   → 0 if unknown
size_t available_bytes(std::string_view meminfo, std::string_view group_max,
                       std::string_view group_current);

/// The same for this machine, now.
size_t available_bytes();

/// The memory that tensors on the device may have, what they have already included; 0: unknown.
int64_t memory_for_tensors(Device device);

}  // namespace lathe::cli
