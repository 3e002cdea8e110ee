// How a block of numbers in cache becomes one partial result: the hot loops of reduce_cpu.cpp.
//
// A Folder<A> is what reduce_order_cpu.h runs. It has numbers of type `Value` and partial results
// of type `Partial`:
//   fold(p, n)                     one partial from n adjacent numbers
//   fold_rows(out, rows, n, cols)  out[c] = the partial of rows[0][c] … rows[n-1][c]
//   join(a, b)                     a becomes the partial of both
//   finish(partial)                the result
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>

#include "lathe/core/config.h"
#include "lathe/core/x86_levels.h"
#include "lathe/ops/exp_math.h"
#include "lathe/ops/reduce_kernels/exp_row.h"
#include "lathe/ops/reduce_kernels/reduce_math.h"

namespace lathe::reduce_fold {

/// Folds all N lanes into lane[0], in pairs.
template <class Op, int N>
[[gnu::always_inline]] inline void fold_tree(typename Op::Value* lane) {
  if constexpr (N > 1) {
    for (int l = 0; l < N / 2; ++l) Op::step(lane[l], lane[l + N / 2]);
    fold_tree<Op, N / 2>(lane);
  }
}

/// Folds into 128 bytes of lanes (four lanes for the rest), whatever vectors the machine has, so
/// that every machine rounds alike.
template <class Op>
LATHE_CLONES typename Op::Value fold_lanes(const typename Op::Value* __restrict__ p, int64_t n) {
  using A = typename Op::Value;
  constexpr int kLanes = 128 / sizeof(A);
  A rest[4] = {Op::kStart, Op::kStart, Op::kStart, Op::kStart};
  int64_t i = 0;
  if (n >= kLanes) {
    A lane[kLanes];
    for (int l = 0; l < kLanes; ++l) lane[l] = p[l];
    for (i = kLanes; i + kLanes <= n; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) Op::step(lane[l], p[i + l]);
    }
    fold_tree<Op, kLanes>(lane);
    rest[0] = lane[0];
  }
  for (; i + 4 <= n; i += 4) {
    for (int l = 0; l < 4; ++l) Op::step(rest[l], p[i + l]);
  }
  for (; i < n; ++i) Op::step(rest[0], p[i]);
  fold_tree<Op, 4>(rest);
  return rest[0];
}

/// out[i] = exp(scale * x[i] - from); out may be x.
template <class A>
LATHE_CLONES void plain_exp_row(A* out, const A* x, A scale, A from, int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = math::fast_exp(scale * x[i] - from);
}
/// The same, in AVX-512 where the processor has it   →  the sum
template <class A>
A exp_row(A* out, const A* x, A scale, A from, int64_t n) {
#if defined(__x86_64__)
  if constexpr (std::is_same_v<A, float>) {
    if (has_avx512()) return cpu::exp_row_avx512(out, x, scale, from, n);
  }
#endif
  plain_exp_row(out, x, scale, from, n);
  return fold_lanes<reduce_math::Sum<A>>(out, n);
}

/// Folds columns, four rows at a time, so that the partials are read and written once per four
/// rows.
template <class Op>
LATHE_CLONES void fold_columns(typename Op::Value* __restrict__ out,
                               const typename Op::Value* const* rows, int n, int64_t cols) {
  using A = typename Op::Value;
  for (int64_t c = 0; c < cols; ++c) out[c] = Op::kStart;
  int r = 0;
  for (; r + 4 <= n; r += 4) {
    const A *p = rows[r], *q = rows[r + 1], *s = rows[r + 2], *t = rows[r + 3];
    for (int64_t c = 0; c < cols; ++c) {
      A left = p[c], right = s[c];
      Op::step(left, q[c]);
      Op::step(right, t[c]);
      Op::step(left, right);
      Op::step(out[c], left);
    }
  }
  for (; r < n; ++r) {
    const A* p = rows[r];
    for (int64_t c = 0; c < cols; ++c) Op::step(out[c], p[c]);
  }
}

/// Sum, Prod, Max, Min of reduce_math.h.
template <class Op>
struct Simple : Op {
  using Value = typename Op::Value;
  using Partial = Value;
  static Partial start() { return Op::kStart; }
  static Partial fold(const Value* p, int64_t n) { return fold_lanes<Op>(p, n); }
  static void fold_rows(Partial* out, const Value* const* rows, int n, int64_t cols) {
    fold_columns<Op>(out, rows, n, cols);
  }
  static void join(Partial& a, const Partial& b) { Op::step(a, b); }
};

/// The sum of squares in f64 whatever the tensor's dtype, then the root.
template <class A>
struct Norm {
  using Value = A;
  using Partial = double;
  static Partial start() { return 0.0; }
  [[gnu::always_inline]] static void step(double& sum, A x) {
    sum += static_cast<double>(x) * static_cast<double>(x);
  }
  LATHE_CLONES static Partial fold(const A* p, int64_t n) {
    double lane[16] = {};
    int64_t i = 0;
    for (; i + 16 <= n; i += 16) {
      for (int l = 0; l < 16; ++l) step(lane[l], p[i + l]);
    }
    for (int l = 0; i < n; ++i, ++l) step(lane[l], p[i]);
    fold_tree<reduce_math::Sum<double>, 16>(lane);
    return lane[0];
  }
  LATHE_CLONES static void fold_rows(double* __restrict__ out, const A* const* rows, int n,
                                     int64_t cols) {
    for (int64_t c = 0; c < cols; ++c) out[c] = 0.0;
    for (int r = 0; r < n; ++r) {
      const A* p = rows[r];
      for (int64_t c = 0; c < cols; ++c) step(out[c], p[c]);
    }
  }
  static void join(double& a, double b) { a += b; }
  static A finish(double a) { return static_cast<A>(std::sqrt(a)); }
};

/// Mean and squared deviations of a block by two passes, both within the cache.
template <class A>
struct Variance {
  using Value = A;
  using Partial = reduce_math::Moments<A>;
  A correction = A(1);
  bool root = false;

  static constexpr int64_t kStrip = 64;  // columns at a time
  static Partial start() { return {A(0), A(0), A(0)}; }
  LATHE_CLONES static Partial fold(const A* p, int64_t n) {
    using Sum = reduce_math::Sum<A>;
    const A count = static_cast<A>(n), mean = fold_lanes<Sum>(p, n) / count;
    constexpr int kLanes = 64 / sizeof(A);
    A lane[kLanes] = {};
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) {
      for (int l = 0; l < kLanes; ++l) {
        const A d = p[i + l] - mean;
        lane[l] += d * d;
      }
    }
    for (int l = 0; i < n; ++i, ++l) lane[l] += (p[i] - mean) * (p[i] - mean);
    fold_tree<Sum, kLanes>(lane);
    return {count, mean, lane[0]};
  }
  LATHE_CLONES static void fold_rows(Partial* out, const A* const* rows, int n, int64_t cols) {
    const A count = static_cast<A>(n);
    for (int64_t start = 0; start < cols; start += kStrip) {
      const int64_t width = std::min(kStrip, cols - start);
      A mean[kStrip] = {}, m2[kStrip] = {};
      for (int r = 0; r < n; ++r) {
        const A* p = rows[r] + start;
        for (int64_t c = 0; c < width; ++c) mean[c] += p[c];
      }
      for (int64_t c = 0; c < width; ++c) mean[c] /= count;
      for (int r = 0; r < n; ++r) {
        const A* p = rows[r] + start;
        for (int64_t c = 0; c < width; ++c) m2[c] += (p[c] - mean[c]) * (p[c] - mean[c]);
      }
      for (int64_t c = 0; c < width; ++c) out[start + c] = {count, mean[c], m2[c]};
    }
  }
  static void join(Partial& a, const Partial& b) { a.join(b); }
  A finish(const Partial& a) const {
    const A v = a.variance(correction);
    return root ? std::sqrt(v) : v;
  }
};

/// log(sum exp x): first the largest number of a block, then the sum relative to it. Blocks have at
/// most kMost numbers.
template <class A>
struct LogSumExp {
  using Value = A;
  using Partial = reduce_math::ScaledSum<A>;
  static constexpr int64_t kMost = 1024, kStrip = 64;

  static Partial start() { return {reduce_math::kLowest<A>, A(0)}; }
  static Partial fold(const A* p, int64_t n) {
    const A m = fold_lanes<reduce_math::Max<A>>(p, n);
    if (std::isinf(m)) return Partial::of_infinite(m);
    A scaled[kMost];
    return {m, exp_row(scaled, p, A(1), m, n)};
  }
  LATHE_CLONES static void fold_rows(Partial* out, const A* const* rows, int n, int64_t cols) {
    for (int64_t start = 0; start < cols; start += kStrip) {
      const int64_t width = std::min(kStrip, cols - start);
      A m[kStrip], sum[kStrip] = {};
      std::fill(m, m + kStrip, reduce_math::kLowest<A>);
      for (int r = 0; r < n; ++r) {
        const A* p = rows[r] + start;
        for (int64_t c = 0; c < width; ++c) reduce_math::Max<A>::step(m[c], p[c]);
      }
      for (int r = 0; r < n; ++r) {
        const A* p = rows[r] + start;
        for (int64_t c = 0; c < width; ++c) sum[c] += math::fast_exp(p[c] - m[c]);
      }
      for (int64_t c = 0; c < width; ++c) {
        out[start + c] = std::isinf(m[c]) ? Partial::of_infinite(m[c]) : Partial{m[c], sum[c]};
      }
    }
  }
  static void join(Partial& a, const Partial& b) { a.join(b); }
  static A finish(const Partial& a) { return a.log(); }
};

}  // namespace lathe::reduce_fold
