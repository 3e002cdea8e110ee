// The arithmetic of ops/bitwise.h, shared by host and device: one functor per op.
#pragma once

#include <cstdint>
#include <type_traits>

#include "lathe/core/config.h"
#include "lathe/core/visit.h"
#include "lathe/ops/bitwise.h"

namespace lathe::math {

template <class T>
inline constexpr uint64_t kBits = 8 * sizeof(T);

/// A shift's distance. Negative ones become larger than any number of bits.
template <class T>
LATHE_HD inline uint64_t distance_of(T b) {
  return static_cast<uint64_t>(static_cast<int64_t>(b));
}

// clang-format off
struct BitAnd { template <class T> LATHE_HD T operator()(T a, T b) const { return static_cast<T>(a & b); } };
struct BitOr  { template <class T> LATHE_HD T operator()(T a, T b) const { return static_cast<T>(a | b); } };
struct BitXor { template <class T> LATHE_HD T operator()(T a, T b) const { return static_cast<T>(a ^ b); } };
// In u64: a signed number that leaves its range is undefined.
struct LeftShift { template <class T> LATHE_HD T operator()(T a, T b) const {
  const uint64_t n = distance_of(b);
  return n < kBits<T> ? static_cast<T>(static_cast<uint64_t>(a) << n) : T(0); } };
// The longest shift that C++ defines leaves the sign of each bit; a u8 is an int here.
struct RightShift { template <class T> LATHE_HD T operator()(T a, T b) const {
  constexpr uint64_t kMost = std::is_signed_v<T> ? kBits<T> - 1 : kBits<T>;
  const uint64_t n = distance_of(b);
  return static_cast<T>(a >> (n < kMost ? n : kMost)); } };
// clang-format on

/// Calls run(TypeTag<T>, f) with the op's functor.
/// throws: DTypeError unless `dtype` is an integer's.
template <class Run>
void visit_bitwise(BitOp op, DType dtype, const Run& run) {
  visit_integer(dtype, "bitwise", [&](auto type) {
    switch (op) {
      case BitOp::kAnd: return run(type, BitAnd{});
      case BitOp::kOr: return run(type, BitOr{});
      case BitOp::kXor: return run(type, BitXor{});
      case BitOp::kLeftShift: return run(type, LeftShift{});
      case BitOp::kRightShift: return run(type, RightShift{});
    }
  });
}

}  // namespace lathe::math
