// Size classes of cached memory: four per power of two, so that a block is at most a quarter or 63
// bytes larger than asked for, whichever is more.
#pragma once

#include <bit>
#include <cstddef>

#include "lathe/core/checked_size.h"

namespace lathe {

inline constexpr size_t kLargestClassBytes = kAddressSpaceBytes;
inline constexpr int kSizeClasses = 4 + 4 * (47 - 8);

/// The smallest class that holds `bytes` <= kLargestClassBytes. Classes are 64, 128, 192, 256, then
/// 2^k * {5, 6, 7, 8} / 4.
constexpr int size_class_of(size_t bytes) {
  if (bytes <= 256) return bytes == 0 ? 0 : static_cast<int>((bytes + 63) / 64) - 1;
  const int power = 63 - std::countl_zero(bytes - 1);  // 2^power < bytes <= 2^(power + 1)
  const int quarter = static_cast<int>((bytes - 1 - (size_t{1} << power)) >> (power - 2));
  return 4 * (power - 7) + quarter;
}

/// The size of every block of a class.
constexpr size_t size_class_bytes(int size_class) {
  if (size_class < 4) return static_cast<size_t>(size_class + 1) * 64;
  const int power = size_class / 4 + 7;
  return static_cast<size_t>(5 + size_class % 4) << (power - 2);
}

}  // namespace lathe
