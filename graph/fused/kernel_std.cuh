// The little of the standard library that the arithmetic of ops uses, for the compiler of fused
// kernels (kernel_compiler.h): NVRTC has no headers of its own. It stands for <cmath>, <concepts>,
// <cstdint>, <limits> and <type_traits>.
#pragma once

using int8_t = signed char;
using int16_t = short;
using int32_t = int;
using int64_t = long;
using uint8_t = unsigned char;
using uint16_t = unsigned short;
using uint32_t = unsigned int;
using uint64_t = unsigned long;
using uintptr_t = unsigned long;

__device__ inline void __builtin_memcpy(void* to, const void* from, uint64_t bytes) {
  memcpy(to, from, bytes);
}

namespace std {

template <class A, class B>
inline constexpr bool is_same_v = false;
template <class A>
inline constexpr bool is_same_v<A, A> = true;

template <class T>
inline constexpr bool is_floating_point_v = is_same_v<T, float> || is_same_v<T, double>;
template <class T>
inline constexpr bool is_integral_v = requires(T x) {
  x % x;
};
template <class T>
inline constexpr bool is_signed_v = T(-1) < T(0);
template <class T>
inline constexpr bool is_unsigned_v = is_integral_v<T> && !is_signed_v<T>;
template <class T>
concept integral = is_integral_v<T>;

__device__ constexpr bool is_constant_evaluated() noexcept {
  return __builtin_is_constant_evaluated();
}

template <class T>
class numeric_limits {};

using ::acos, ::acosh, ::asin, ::asinh, ::atan, ::atan2, ::atanh, ::ceil, ::copysign, ::cos, ::cosh;
using ::erf, ::exp, ::exp2, ::expm1, ::fabs, ::floor, ::fmod, ::hypot, ::log, ::log10, ::log1p;
using ::log2, ::nearbyint, ::pow, ::sin, ::sinh, ::sqrt, ::tan, ::tanh, ::trunc;

}  // namespace std
