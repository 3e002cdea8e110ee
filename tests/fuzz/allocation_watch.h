// Counts what operator new hands out, so that a target can hold a parser to its promise: never more
// than four times the input and 1 MiB. A target that uses it lists allocation_watch.cpp.
#pragma once

#include <cstdint>

#include "lathe/core/error.h"

namespace lathe::fuzz {

/// From here on the most bytes that were allocated at once, above those at the start; tensors count
/// with what they hold.
class AllocationWatch {
 public:
  AllocationWatch();
  int64_t peak_bytes() const;
  /// throws: std::logic_error if more than `input_bytes` accounts for was allocated.
  void check(int64_t input_bytes) const;

 private:
  int64_t before_, tensors_before_;
};

/// Runs `parse`, which may throw an Error, and checks what it allocated.
template <class F>
void check_allocations(int64_t input_bytes, F&& parse) {
  const AllocationWatch watch;
  try {
    parse();
  } catch (const Error&) {
    watch.check(input_bytes);
    throw;
  }
  watch.check(input_bytes);
}

}  // namespace lathe::fuzz
