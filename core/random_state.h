// The state of the default generators by name, as a checkpoint holds it. Defined in generator.cpp.
#pragma once

#include "lathe/core/state_dict.h"

namespace lathe {

/// Everything that decides the next random number on any device, each an i64 [2] of seed and
/// offset:
///   cpu, cuda.0, …   the default generator of a device that was used
///   unused           what a device begins with that is first used later
LATHE_API StateDict random_state();

/// Takes over such a state, for devices that are not there too; those that it does not name begin
/// as `unused` says. All or nothing.   throws: ValueError listing what is missing, unexpected or of
/// another shape.
LATHE_API void set_random_state(const StateDict& state);

}  // namespace lathe
