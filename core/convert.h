// Conversion of one element to another type, as core/copy.h documents it; the same code on host and
// device.
#pragma once

#include <cstdint>
#include <type_traits>

#include "lathe/core/config.h"
#include "lathe/core/scalar.h"
#include "lathe/core/visit.h"

namespace lathe {

/// Float → integer truncates toward zero, float → half rounds to nearest even, anything → bool is
/// `!= 0`.
template <class To, class From>
LATHE_HD inline To convert(From value) {
  using Wide = ComputeType<From>;
  if constexpr (std::is_same_v<To, From>) {
    return value;
  } else if constexpr (std::is_same_v<To, bool>) {
    return static_cast<Wide>(value) != Wide(0);
  } else if constexpr (std::is_floating_point_v<Wide> && std::is_integral_v<To>) {
    // Through i64, so that a value outside To wraps as integers do instead of being undefined.
    const double wide = static_cast<double>(static_cast<Wide>(value));
    const bool fits = wide >= -9223372036854775808.0 && wide < 9223372036854775808.0;
    return static_cast<To>(fits ? static_cast<int64_t>(wide) : INT64_MIN);
  } else if constexpr (std::is_same_v<To, Half> || std::is_same_v<To, BFloat16>) {
    return To(static_cast<float>(static_cast<Wide>(value)));
  } else {
    return static_cast<To>(static_cast<Wide>(value));
  }
}

/// The number as an element of type T, converted as a copy from the number's dtype would be.
template <class T>
T element_of(Scalar value) {
  return value.is_floating() ? convert<T>(value.to<double>()) : value.to<T>();
}

}  // namespace lathe
