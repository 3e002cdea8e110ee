// The arithmetic of reduce_math.h in the form that reduce_kernels.cuh takes: a Math for each
// reduction. For .cu files only.
#pragma once

#include <cmath>
#include <cstdint>

#include "lathe/core/dtype.h"
#include "lathe/ops/reduce_kernels/reduce_kernels.cuh"
#include "lathe/ops/reduce_kernels/reduce_math.h"

namespace lathe::cuda {

/// Folds v[0] … v[kFold - 1] in pairs.
template <class Op>
__device__ typename Op::Value fold_pairs(const typename Op::Value (&v)[kFold]) {
  typename Op::Value pair[kFold / 2];
  for (int i = 0; i < kFold / 2; ++i) {
    pair[i] = v[i];
    Op::step(pair[i], v[i + kFold / 2]);
  }
  for (int half = kFold / 4; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) Op::step(pair[i], pair[i + half]);
  }
  return pair[0];
}

/// Sum, Prod, Max, Min of reduce_math.h.
template <class Op>
struct SimpleMath {
  using Value = typename Op::Value;
  using Partial = Value;
  static constexpr Value kFiller = Op::kStart;
  static constexpr bool kCentred = false;
  template <class T>
  __device__ static Value value(T x) {
    return static_cast<Value>(x);
  }
  __device__ static Partial start() { return Op::kStart; }
  __device__ static Partial fold(const Value (&v)[kFold], int, int64_t, int64_t) {
    return fold_pairs<Op>(v);
  }
  __device__ static Partial combine(Partial a, Partial b) {
    Op::step(a, b);
    return a;
  }
};

/// The sum of squares, in f64 whatever the tensor's dtype. That is one multiplication and one
/// addition per number, for which a data-centre GPU's f64 units are as fast as its memory.
struct SquaresMath {
  using Value = double;
  using Partial = double;
  static constexpr Value kFiller = 0;
  static constexpr bool kCentred = false;
  template <class T>
  __device__ static Value value(T x) {
    return static_cast<double>(x) * static_cast<double>(x);
  }
  __device__ static Partial start() { return 0; }
  __device__ static Partial fold(const Value (&v)[kFold], int, int64_t, int64_t) {
    return fold_pairs<reduce_math::Sum<double>>(v);
  }
  __device__ static Partial combine(Partial a, Partial b) { return a + b; }
};

/// Mean and squared deviations: two passes over the kFold numbers in registers, then Chan's rule.
/// The first number is subtracted from all, so that means have the size of the deviations and f32
/// keeps their digits; this changes no variance.
template <class A>
struct MomentsMath {
  using Value = A;
  using Partial = reduce_math::Moments<A>;
  static constexpr Value kFiller = 0;
  static constexpr bool kCentred = true;
  template <class T>
  __device__ static Value value(T x) {
    return static_cast<Value>(x);
  }
  __device__ static Partial start() { return {A(0), A(0), A(0)}; }
  __device__ static Partial fold(const Value (&v)[kFold], int n, int64_t, int64_t) {
    const A mean = fold_pairs<reduce_math::Sum<A>>(v) / static_cast<A>(n);
    A squares[kFold];
    for (int i = 0; i < kFold; ++i) {
      const A d = i < n ? v[i] - mean : A(0);
      squares[i] = d * d;
    }
    return {static_cast<A>(n), mean, fold_pairs<reduce_math::Sum<A>>(squares)};
  }
  __device__ static Partial combine(Partial a, const Partial& b) {
    a.join(b);
    return a;
  }
};

/// The largest number and the sum of exponentials relative to it.
template <class A>
struct LogSumExpMath {
  using Value = A;
  using Partial = reduce_math::ScaledSum<A>;
  static constexpr Value kFiller = reduce_math::kLowest<A>;
  static constexpr bool kCentred = false;
  template <class T>
  __device__ static Value value(T x) {
    return static_cast<Value>(x);
  }
  __device__ static Partial start() { return {reduce_math::kLowest<A>, A(0)}; }
  __device__ static Partial fold(const Value (&v)[kFold], int, int64_t, int64_t) {
    const A m = fold_pairs<reduce_math::Max<A>>(v);
    if (m - m != A(0) && m == m) return Partial::of_infinite(m);
    A scaled[kFold];
    for (int i = 0; i < kFold; ++i) scaled[i] = std::exp(v[i] - m);
    return {m, fold_pairs<reduce_math::Sum<A>>(scaled)};
  }
  __device__ static Partial combine(Partial a, const Partial& b) {
    a.join(b);
    return a;
  }
};

/// Integers and bools of any dtype, read as i64: one kernel for six dtypes. The dtype is tested per
/// element; integer reductions are rare enough to bear that cost.
class IntegerArray {
 public:
  explicit IntegerArray(const Tensor& t) : data_(t.raw_data()), dtype_(t.dtype()) {}

  LATHE_HD IntegerArray operator+(int64_t offset) const {
    IntegerArray result = *this;
    result.start_ += offset;
    return result;
  }
  LATHE_HD int64_t operator[](int64_t i) const {
    switch (dtype_) {
      case DType::kBool: return at<bool>(i);
      case DType::kU8: return at<uint8_t>(i);
      case DType::kI8: return at<int8_t>(i);
      case DType::kI16: return at<int16_t>(i);
      case DType::kI32: return at<int32_t>(i);
      default: return at<int64_t>(i);
    }
  }
  /// Sets element i to `value`, cut to the dtype.
  LATHE_HD void set(int64_t i, int64_t value) const {
    switch (dtype_) {
      case DType::kBool: at<bool>(i) = value != 0; break;
      case DType::kU8: at<uint8_t>(i) = static_cast<uint8_t>(value); break;
      case DType::kI8: at<int8_t>(i) = static_cast<int8_t>(value); break;
      case DType::kI16: at<int16_t>(i) = static_cast<int16_t>(value); break;
      case DType::kI32: at<int32_t>(i) = static_cast<int32_t>(value); break;
      default: at<int64_t>(i) = value;
    }
  }

 private:
  template <class T>
  LATHE_HD T& at(int64_t i) const {
    return static_cast<T*>(data_)[start_ + i];
  }

  void* data_;
  int64_t start_ = 0;
  DType dtype_;
};

/// `x != 0` for any dtype, by its bits; -0 counts as 0.
class TruthArray {
 public:
  explicit TruthArray(const Tensor& t)
      : data_(t.raw_data()), size_(size_of(t.dtype())), floating_(is_floating(t.dtype())) {}

  LATHE_HD TruthArray operator+(int64_t offset) const {
    TruthArray result = *this;
    result.start_ += offset;
    return result;
  }
  LATHE_HD bool operator[](int64_t i) const {
    switch (size_) {
      case 1: return at<uint8_t>(i);
      case 2: return at<uint16_t>(i);
      case 4: return at<uint32_t>(i);
      default: return at<uint64_t>(i);
    }
  }

 private:
  template <class Bits>
  LATHE_HD bool at(int64_t i) const {
    const Bits bits = static_cast<const Bits*>(data_)[start_ + i];
    return static_cast<Bits>(floating_ ? bits << 1 : bits) != 0;
  }

  const void* data_;
  int64_t start_ = 0;
  size_t size_;
  bool floating_;
};

}  // namespace lathe::cuda
