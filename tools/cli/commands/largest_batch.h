// How `lathe find-batch` looks for the largest batch, and how much memory a CPU may take for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lathe/core/function_ref.h"

namespace lathe::cli {

/// The largest n from 1 to `most` for which fits(n), given that everything below one that fits fits
/// too: doubles from 1 until one does not fit, then halves the gap until it is at most a 32nd of
/// the answer (or 1).   → 0 if not even 1 fits
int64_t largest_that_fits(int64_t most, FunctionRef<bool(int64_t)> fits);

/// The memory that a process may take: the smaller of /proc/meminfo's MemAvailable and what the
/// control group leaves (memory.max - memory.current; "max" or nothing: no limit).   → 0 if nothing
/// is known
size_t available_bytes(std::string_view meminfo, std::string_view group_max,
                       std::string_view group_current);

/// The same of this machine, now.
size_t available_bytes();

}  // namespace lathe::cli
