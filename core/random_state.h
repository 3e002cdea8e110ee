// The state of the default generators by name, as a checkpoint holds it. Defined in generator.cpp.
#pragma once

#include "lathe/core/state_dict.h"

namespace lathe {

/// Everything that decides the next random number on any device. Each entry is an i64 [2]: seed and
/// offset.
///   cpu, cuda.0, …   the default generators of the devices that were used
///   unused           the state in which a device begins that is used for the first time later
///   unused           what a device begins with that is first used later
LATHE_API StateDict random_state();

/// Sets that state, also for devices that this machine does not have. A device that `state` does
/// not name begins with `unused`. All or nothing.
/// throws: ValueError that lists the entries that are missing, unexpected or of another shape.
LATHE_API void set_random_state(const StateDict& state);

}  // namespace lathe
