// Ways to a faster training step on a GPU that no GPU has measured yet. All are off until the
// environment variable LATHE_UNMEASURED names them: LATHE_UNMEASURED=relu-bits,… The results of a
// step have the same bits with and without the first two. `lathe plan` predicts what each gains.
#pragma once

#include <cstdint>
#include <string_view>

#include "lathe/core/config.h"

namespace lathe {

enum class Unmeasured : uint8_t {
  kReluBits,         // "relu-bits": batch_norm_add_relu keeps a bit per number for its gradient
  kDependentLaunch,  // "dependent-launch": most of our own kernels start as the one before ends
  kResidualGrad,  // "residual-grad": an input gradient goes on through the end of the block before
};

/// True if the part is on. Thread-safe.
/// throws: ValueError if LATHE_UNMEASURED names a part that does not exist.
LATHE_API bool tries(Unmeasured part);
/// Turns on the parts that the list names, as LATHE_UNMEASURED would, and the others off: for the
/// calls to come, of all threads.
/// throws: ValueError for a part that does not exist. Then nothing has changed.
LATHE_API void set_unmeasured(std::string_view list);

/// "relu-bits", "dependent-launch", "residual-grad"
LATHE_API std::string_view name_of(Unmeasured part) noexcept;

}  // namespace lathe
