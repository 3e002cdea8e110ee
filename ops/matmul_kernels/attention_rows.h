// What the CPU's kernels of attention do to a row of scores: scale, mask, exp. attention_cpu.cpp:
// tiles; attention_few_cpu.cpp: few queries.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <type_traits>

#include "lathe/core/config.h"
#include "lathe/ops/attention.h"
#include "lathe/ops/reduce_kernels/reduce_fold_cpu.h"

namespace lathe::attention_rows {

template <class A>
constexpr A kInf = std::numeric_limits<A>::infinity();

template <class A>
LATHE_CLONES void scale_row(A* __restrict__ s, A scale, int64_t n) {
  for (int64_t j = 0; j < n; ++j) s[j] *= scale;
}

template <class A>
LATHE_CLONES void add_mask(A* __restrict__ s, const A* __restrict__ mask, int64_t step, A least,
                           int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    const A sum = s[j] + mask[j * step];
    s[j] = sum <= least ? -kInf<A> : sum;
  }
}

/// mask: bools as bytes, of which GCC makes vector code.
template <class A>
LATHE_CLONES void hide(A* __restrict__ s, const uint8_t* __restrict__ mask, int64_t n) {
  for (int64_t j = 0; j < n; ++j) {
    const A score = s[j];
    s[j] = mask[j] != 0 ? score : -kInf<A>;
  }
}

/// Where matrix `index` of t [leading…,rows,cols] begins, in elements. Matrices are counted in
/// row-major order.
inline int64_t matrix_start(const Tensor& t, int64_t index) {
  int64_t at = 0;
  for (int d = t.ndim() - 3; d >= 0; --d) {
    at += index % t.dim(d) * t.stride(d);
    index /= t.dim(d);
  }
  return at;
}

/// True if finish_scores() scales: if there is a mask, or if the scale is not above 0, so that the
/// largest product is not the largest score. Otherwise exp_row() scales.
inline bool scales_first(const TiledAttention& how) {
  return how.mask.defined() || !(static_cast<float>(how.scale) > 0);
}

/// Turns n products q k^T, of query i of head h and the keys from j, into scores: scaled and masked
/// if scales_first(), and -inf where hidden.
template <class A>
void finish_scores(A* s, const TiledAttention& how, int64_t h, int64_t i, int64_t j, int64_t n) {
  if (scales_first(how)) scale_row(s, static_cast<A>(how.scale), n);
  if (const Tensor& mask = how.mask; mask.defined()) {
    const int64_t step = mask.stride(-1);
    const int64_t at = matrix_start(mask, h) + i * mask.stride(-2) + j * step;
    if (mask.dtype() == kBool) {
      const bool* const looks = mask.data<bool>() + at;
      if (step == 1) {
        hide(s, reinterpret_cast<const uint8_t*>(looks), n);
      } else {
        for (int64_t k = 0; k < n; ++k) s[k] = looks[k * step] ? s[k] : -kInf<A>;
      }
    } else {
      add_mask(s, mask.data<A>() + at, step, static_cast<A>(how.least), n);
    }
  }
  if (how.causal && i + 1 < j + n) std::fill(s + std::max<int64_t>(0, i + 1 - j), s + n, -kInf<A>);
}

/// What exp_row() has to scale finished scores by.
template <class A>
A rest_of_scale(const TiledAttention& how) {
  return scales_first(how) ? A(1) : static_cast<A>(how.scale);
}

}  // namespace lathe::attention_rows
