// The arithmetic of the reductions, shared by host and device: start, step, join and finish of
// each. The kernels (reduce_cpu.cpp, reduce_kernels.cuh) decide in which order elements meet.
#pragma once

#include <cmath>
#include <cstdint>
#include <limits>

#include "lathe/core/config.h"

namespace lathe::reduce_math {

template <class A>
inline constexpr A kLowest = std::numeric_limits<A>::has_infinity
                                 ? -std::numeric_limits<A>::infinity()
                                 : std::numeric_limits<A>::lowest();
template <class A>
inline constexpr A kHighest = std::numeric_limits<A>::has_infinity
                                  ? std::numeric_limits<A>::infinity()
                                  : std::numeric_limits<A>::max();

// A simple reduction folds numbers of type Value into one number. `step(a, x)` takes scalars or, on
// the host, vectors of the compiler's vector extension; hence `a = condition ? x : a` instead of
// branches.

/// The sum, then divided: by 1 for the sum, by the count for the mean.
template <class A>
struct Sum {
  using Value = A;
  A divisor = A(1);
  static constexpr A kStart = A(0);
  [[gnu::always_inline]] LATHE_HD static void step(A& a, A x) { a += x; }
  LATHE_HD A finish(A a) const { return a / divisor; }
};

template <class A>
struct Prod {
  using Value = A;
  static constexpr A kStart = A(1);
  [[gnu::always_inline]] LATHE_HD static void step(A& a, A x) { a *= x; }
  LATHE_HD A finish(A a) const { return a; }
};

/// NaN wins: `x != x` takes it, and once a is NaN, `x > a` is false. There are two selections
/// because compilers turn two into vector code, but not one with an `or`.
template <class A>
struct Max {
  using Value = A;
  static constexpr A kStart = kLowest<A>;
  [[gnu::always_inline]] LATHE_HD static void step(A& a, A x) {
    a = x > a ? x : a;
    a = x != x ? x : a;
  }
  LATHE_HD A finish(A a) const { return a; }
};

template <class A>
struct Min {
  using Value = A;
  static constexpr A kStart = kHighest<A>;
  [[gnu::always_inline]] LATHE_HD static void step(A& a, A x) {
    a = x < a ? x : a;
    a = x != x ? x : a;
  }
  LATHE_HD A finish(A a) const { return a; }
};

/// Count, mean and sum of squared deviations of a part. join() merges two parts (Chan et al. 1979).
template <class A>
struct Moments {
  A count, mean, m2;

  LATHE_HD void join(const Moments& b) {
    if (b.count == A(0)) return;
    if (count == A(0)) {
      *this = b;
      return;
    }
    const A total = count + b.count, delta = b.mean - mean;
    m2 += b.m2 + delta * delta * (count * (b.count / total));
    mean += delta * (b.count / total);
    count = total;
  }
  /// m2 / (count - correction); the divisor is at least 0.
  LATHE_HD A variance(A correction) const {
    const A divisor = count - correction;
    return m2 / (divisor > A(0) ? divisor : A(0));
  }
};

/// log of a sum of exponentials: the largest so far, and the sum of exp(x - largest).
template <class A>
struct ScaledSum {
  A largest, sum;

  /// For numbers whose largest is infinite: all -inf, or one +inf at least.
  LATHE_HD static ScaledSum of_infinite(A m) { return {m, m > A(0) ? A(1) : A(0)}; }
  LATHE_HD A log() const { return largest + std::log(sum); }
  /// exp(largest - m) * sum; both largest and m may be infinite.
  LATHE_HD A scaled_to(A m) const { return largest == m ? sum : sum * std::exp(largest - m); }
  LATHE_HD void join(const ScaledSum& b) {
    A m = largest;
    Max<A>::step(m, b.largest);
    sum = scaled_to(m) + b.scaled_to(m);
    largest = m;
  }
};

}  // namespace lathe::reduce_math
