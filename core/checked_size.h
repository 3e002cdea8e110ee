// CheckedSize: an integer that notices overflow. Element counts, byte counts and file offsets are
// computed with it before anything is allocated or read.
#pragma once

#include <concepts>
#include <cstdint>
#include <utility>

#include "lathe/core/error.h"

namespace lathe {

/// No program on x86-64 or arm64 has more memory: its addresses have 47 bits.
inline constexpr int64_t kAddressSpaceBytes = int64_t{1} << 47;

/// An int64 whose + - * remember that a result did not fit. The mark is sticky: nothing that
/// follows clears it, not even a multiplication by 0. Check once, at the end:
///   CheckedSize bytes = size_of(dtype);
///   for (int64_t d : shape) bytes *= d;
///   storage(bytes.value_or_throw<ShapeError>("empty: ", shape, " does not fit an int64"));
class CheckedSize {
 public:
  constexpr CheckedSize() = default;
  template <std::integral T>
  constexpr CheckedSize(T value)
      : value_(static_cast<int64_t>(value)), overflowed_(!std::in_range<int64_t>(value)) {}

  constexpr CheckedSize& operator+=(CheckedSize other) {
    overflowed_ =
        __builtin_add_overflow(value_, other.value_, &value_) | overflowed_ | other.overflowed_;
    return *this;
  }
  constexpr CheckedSize& operator-=(CheckedSize other) {
    overflowed_ =
        __builtin_sub_overflow(value_, other.value_, &value_) | overflowed_ | other.overflowed_;
    return *this;
  }
  constexpr CheckedSize& operator*=(CheckedSize other) {
    overflowed_ =
        __builtin_mul_overflow(value_, other.value_, &value_) | overflowed_ | other.overflowed_;
    return *this;
  }
  friend constexpr CheckedSize operator+(CheckedSize a, CheckedSize b) { return a += b; }
  friend constexpr CheckedSize operator-(CheckedSize a, CheckedSize b) { return a -= b; }
  friend constexpr CheckedSize operator*(CheckedSize a, CheckedSize b) { return a *= b; }

  /// True if a value or an intermediate result did not fit an int64.
  constexpr bool overflowed() const { return overflowed_; }

  /// The value.
  /// throws: `E`, with all arguments written one after another, if anything overflowed.
  template <class E = ValueError, class... Args>
  constexpr int64_t value_or_throw(const Args&... text) const {
    if (overflowed_) [[unlikely]]
      fail<E>(SourcePlace{nullptr, 0}, text...);
    return value_;
  }

 private:
  int64_t value_ = 0;
  bool overflowed_ = false;
};

}  // namespace lathe
