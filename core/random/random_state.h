// The state of the default generators by name, as a checkpoint holds it. Defined in generator.cpp.
#pragma once

#include "lathe/core/state_dict.h"

namespace lathe {

/// The states of the default generators of all devices, which decide the next random numbers. Each
/// entry is an i64 [2]: seed and offset.
///   cpu          the CPU's generator
///   cuda.0, …    the generators of those GPUs that have drawn numbers since the last manual_seed
///   unused       the state in which the generators of all other GPUs begin
LATHE_API StateDict random_state();

/// Restores what random_state() returned. Entries of devices that this machine does not have are
/// allowed. A GPU without an entry takes the state of the entry `unused`. If set_random_state()
/// throws, nothing has changed.
/// throws: ValueError that lists the entries that are missing, unexpected or of another shape.
LATHE_API void set_random_state(const StateDict& state);

}  // namespace lathe
