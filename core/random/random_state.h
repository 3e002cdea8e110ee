// The state of the default generators by name, as a checkpoint holds it. Defined in generator.cpp.
#pragma once

#include "lathe/core/state_dict.h"

namespace lathe {

/// Everything that decides the next random number on any device. Each entry is an i64 [2]: seed and
/// offset.
///   cpu              the default generator of the CPU
///   cuda.0, …        those of the GPUs that have drawn numbers since the last manual_seed
///   unused           the state in which the other GPUs begin
LATHE_API StateDict random_state();

/// Sets that state, also for devices that this machine does not have. A device that `state` does
/// not name begins with `unused`. All or nothing.
/// throws: ValueError that lists the entries that are missing, unexpected or of another shape.
LATHE_API void set_random_state(const StateDict& state);

}  // namespace lathe
