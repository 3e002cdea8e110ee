// StateShares: what an optimiser asks when each of several processes keeps the state of a share of
// its parameters. distributed/zero_redundancy.h is the one there is.
#pragma once

#include <cstddef>

#include "lathe/core/state_dict.h"

namespace lathe::optim {

/// Parameters are numbered through all groups. All processes ask the same in the same order.
class LATHE_API StateShares {
 public:
  virtual ~StateShares() = default;
  /// True if this process keeps the state of that parameter, and updates it.
  virtual bool is_own(size_t number) const = 0;
  /// Before an update. All processes must have the same answer.
  /// throws: StateError if exchange() cannot be called now, as in a capture of a GPU's stream.
  virtual void check_can_exchange() const = 0;
  /// After an update: gives all processes the new values of all parameters.
  virtual void exchange() = 0;
  /// The state.… entries of all processes, ordered as those of one, from those of this process.
  virtual StateDict gather(const StateDict& own) const = 0;
  /// `call` of this process, "step" or "state_dict()", failed; it will not call what was to follow.
  virtual void failed(const char* call, const char* reason) noexcept = 0;
};

}  // namespace lathe::optim
