// Products of a few rows with many, which are read once, where they lie, in any floating dtype: so
// memory is what takes the time. The order of each sum depends on the sizes of one row alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "lathe/core/config.h"

namespace lathe::few_rows {

/// Dense rows, `step` elements apart.
template <class T>
struct Rows {
  T* data;
  int64_t step;

  T* operator[](int64_t row) const { return data + row * step; }
};

template <class A, int n>
struct VecOf {
  typedef A Type __attribute__((vector_size(n * sizeof(A))));
};
/// A vector of n numbers, which the compiler makes of those that the machine has.
template <class A, int n>
using Vec = typename VecOf<A, n>::Type;

template <class A>
inline constexpr int kLanes = 64 / sizeof(A);

template <class A, class T>
[[gnu::always_inline]] inline void load(Vec<A, kLanes<A>>& to, const T* from) {
  A numbers[kLanes<A>];
  for (int l = 0; l < kLanes<A>; ++l) numbers[l] = static_cast<A>(from[l]);
  std::memcpy(&to, numbers, sizeof(to));
}

/// to = the first half of the lanes + the second, until four are left.
template <class A, int n>
[[gnu::always_inline]] inline void fold_to_four(Vec<A, 4>& to, const Vec<A, n>& from) {
  if constexpr (n == 4) {
    to = from;
  } else {
    Vec<A, n / 2> half[2];
    std::memcpy(half, &from, sizeof(from));
    fold_to_four<A, n / 2>(to, half[0] + half[1]);
  }
}

/// out[j] = x · b[j] for four rows b[j], of D terms each.
template <class A, class T>
[[gnu::always_inline]] inline void four_dots(A* out, const A* x, const T* const* b, int64_t D) {
  Vec<A, kLanes<A>> sum[4] = {}, factors, terms;
  int64_t d = 0;
  for (; d + kLanes<A> <= D; d += kLanes<A>) {
    load<A>(factors, x + d);
    for (int j = 0; j < 4; ++j) {
      load<A>(terms, b[j] + d);
      sum[j] += factors * terms;
    }
  }
  Vec<A, 4> s[4], rest = {};
  for (int j = 0; j < 4; ++j) fold_to_four<A, kLanes<A>>(s[j], sum[j]);
  for (; d < D; ++d) {
    for (int j = 0; j < 4; ++j) rest[j] += x[d] * static_cast<A>(b[j][d]);
  }
  const Vec<A, 4> left = __builtin_shufflevector(s[0], s[1], 0, 4, 1, 5) +
                         __builtin_shufflevector(s[0], s[1], 2, 6, 3, 7);
  const Vec<A, 4> right = __builtin_shufflevector(s[2], s[3], 0, 4, 1, 5) +
                          __builtin_shufflevector(s[2], s[3], 2, 6, 3, 7);
  rest += __builtin_shufflevector(left, right, 0, 1, 4, 5) +
          __builtin_shufflevector(left, right, 2, 3, 6, 7);
  std::memcpy(out, &rest, sizeof(rest));
}

/// out[r][j] = x[r] · b[j] for `rows` rows of x and n of b, of D terms each.
template <class A, class T>
LATHE_CLONES void multiply_rows(Rows<A> out, Rows<const A> x, Rows<const T> b, int64_t rows,
                                int64_t n, int64_t D) {
  for (int64_t j = 0; j < n; j += 4) {
    const T* four[4];  // the last row again and again where b has no more
    for (int64_t i = 0; i < 4; ++i) four[i] = b[std::min(j + i, n - 1)];
    for (int64_t r = 0; r < rows; ++r) {
      A last[4];
      const bool whole = j + 4 <= n;
      four_dots(whole ? out[r] + j : last, x[r], four, D);
      if (!whole) std::copy_n(last, n - j, out[r] + j);
    }
  }
}

/// out[e] += x[0] b[0][e] + x[1] b[1][e] + … for e < kLanes * (the number of `lane`), n rows of b.
template <class A, class T, int... lane>
[[gnu::always_inline]] inline void add_columns(A* out, const A* x, const T* b, int64_t step,
                                               int64_t n, std::integer_sequence<int, lane...>) {
  Vec<A, kLanes<A>> sum[sizeof...(lane)], terms;
  (std::memcpy(&sum[lane], out + lane * kLanes<A>, sizeof(terms)), ...);
  for (int64_t j = 0; j < n; ++j) {
    ((load<A>(terms, b + j * step + lane * kLanes<A>), sum[lane] += x[j] * terms), ...);
  }
  (std::memcpy(out + lane * kLanes<A>, &sum[lane], sizeof(terms)), ...);
}

/// out[r] += x[r][0] b[0] + x[r][1] b[1] + … for `rows` rows of x and n of b, of E columns. Fast if
/// the first-level cache holds b.
template <class A, class T>
LATHE_CLONES void add_rows(Rows<A> out, Rows<const A> x, Rows<const T> b, int64_t rows, int64_t n,
                           int64_t E) {
  constexpr int64_t kOne = kLanes<A>, kFour = 4 * kOne;
  for (int64_t r = 0; r < rows; ++r) {
    A* const y = out[r];
    int64_t e = 0;
    for (; e + kFour <= E; e += kFour)
      add_columns(y + e, x[r], b.data + e, b.step, n, std::make_integer_sequence<int, 4>());
    for (; e + kOne <= E; e += kOne)
      add_columns(y + e, x[r], b.data + e, b.step, n, std::make_integer_sequence<int, 1>());
    for (int64_t j = 0; j < n; ++j) {
      for (int64_t last = e; last < E; ++last) y[last] += x[r][j] * static_cast<A>(b[j][last]);
    }
  }
}

}  // namespace lathe::few_rows
