// One number of any dtype, as an argument: relu(x) + 1.0, full({2}, 3), clamp(x, 0, 6).
#pragma once

#include <concepts>
#include <cstdint>
#include <string>

#include "lathe/core/dtype.h"
#include "lathe/core/format.h"

namespace lathe {

/// A number that remembers whether it was written as bool, integer or floating.
class Scalar {
 public:
  constexpr Scalar(bool value) : integer_(value), dtype_(DType::kBool) {}
  template <std::integral T>
  requires(!std::same_as<T, bool>) constexpr Scalar(T value)
      : integer_(static_cast<int64_t>(value)), dtype_(DType::kI64) {}
  template <std::floating_point T>
  constexpr Scalar(T value) : floating_(value), dtype_(DType::kF64) {}

  constexpr DType dtype() const { return dtype_; }
  constexpr bool is_floating() const { return dtype_ == DType::kF64; }

  /// The value as T (C++ conversion).
  template <class T>
  constexpr T to() const {
    if constexpr (std::is_arithmetic_v<T>) {
      return is_floating() ? static_cast<T>(floating_) : static_cast<T>(integer_);
    } else {
      return T(static_cast<float>(is_floating() ? floating_ : static_cast<double>(integer_)));
    }
  }

 private:
  int64_t integer_ = 0;
  double floating_ = 0.0;
  DType dtype_;
};

inline void append_text(std::string& out, const Scalar& s) {
  if (s.is_floating()) {
    append_text(out, s.to<double>());
  } else {
    append_text(out, s.to<int64_t>());
  }
}

}  // namespace lathe
