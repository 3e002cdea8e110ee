// Counts what operator new hands out, so that a target can hold a parser to its promise: never more
// than four times the input and 1 MiB.
#pragma once

#include <cstdint>
#include <string>

#include "lathe/core/formats/deflate.h"

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

/// The input's size for formats with deflated parts, which may take four times this: what those
/// declare, and deflate's best ratio bounds.
inline int64_t inflated_bytes(const std::string& input) {
  const auto size = static_cast<int64_t>(input.size());
  return size + size / 4 * kBestDeflateRatio;
}

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
