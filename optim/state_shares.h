// StateShares: the interface by which an optimiser shares its state among processes: each process
// keeps the state of a part of the parameters. distributed/zero_redundancy.h implements it.
#pragma once

#include <cstddef>

#include "lathe/core/state_dict.h"

namespace lathe::optim {

/// Shares an optimiser's state among processes. A parameter's `number` is its position among the
/// parameters of all groups. All processes must make the same calls in the same order.
class LATHE_API StateShares {
 public:
  virtual ~StateShares() = default;
  /// True if this process updates parameter `number` and keeps its state.
  virtual bool is_own(size_t number) const = 0;
  /// Called before an update. Must return on all processes, or throw on all.
  /// throws: StateError if exchange() cannot be called now, for instance while a stream is
  /// captured.
  virtual void check_can_exchange() const = 0;
  /// Called after an update: gives all processes the new values of all parameters.
  virtual void exchange() = 0;
  /// Returns the entries "state.…" of all processes, in the order in which they would be if one
  /// process had the whole state. `own` has the entries of this process.
  virtual StateDict gather(const StateDict& own) const = 0;
  /// Tells the other processes that `call` ("step" or "state_dict()") failed on this process, so
  /// that they do not wait for its next calls.
  virtual void failed(const char* call, const char* reason) noexcept = 0;
};

}  // namespace lathe::optim
