// The inner loops of batch normalisation. Contracts: batch_norm_rows_cpu.h.
#include "lathe/ops/batch_norm_kernels/batch_norm_rows_cpu.h"

#include <type_traits>

#include "lathe/core/fetch_ahead.h"
#include "lathe/ops/batch_norm_conv2d.h"
#include "lathe/ops/batch_norm_kernels/batch_norm_math.h"

// Before a loop that may write an element which it has read: no later round reads it. Clang, which
// does not know the pragma, compares the addresses at run time. (A macro, because a pragma in a
// condition of the preprocessor would be five lines at each loop.)
#if defined(__GNUC__) && !defined(__clang__)
#  define LATHE_IVDEP _Pragma("GCC ivdep")
#else
#  define LATHE_IVDEP
#endif

namespace lathe::cpu {

namespace {

constexpr int kPartials = 32;  // partial sums along a row, to hide the latency of an addition
constexpr int kGroup = 4;      // rows that are summed together before they reach the column's total

/// acc[0] = sum of all lanes, as a balanced tree.
template <int kCount = kPartials, class S>
[[gnu::always_inline]] inline S fold(S* acc) {
  if constexpr (kCount > 1) {
    for (int j = 0; j < kCount / 2; ++j) acc[j] += acc[j + kCount / 2];
    return fold<kCount / 2>(acc);
  }
  return acc[0];
}

/// The sum over i of term(i); term is cheap and free of branches.
template <class S, class Term>
[[gnu::always_inline]] inline S row_sum(int64_t width, Term term) {
  S acc[kPartials] = {};
  int64_t i = 0;
  for (; i + kPartials <= width; i += kPartials) {
    for (int j = 0; j < kPartials; ++j) acc[j] += term(i + j);
  }
  for (int j = 0; i < width; ++i, ++j) acc[j] += term(i);
  return fold(acc);
}

/// sum[i] += term(r, i) over all rows; term reads x[r * width + i].
template <class S, class T, class Term>
[[gnu::always_inline]] inline void column_sums(int64_t rows, int64_t width, S* __restrict__ sum,
                                               const T* x, Term term) {
  int64_t r = 0;
  for (; r + kGroup <= rows; r += kGroup) {
    fetch_ahead(x + r * width, kGroup * width * int64_t{sizeof(T)});
    for (int64_t i = 0; i < width; ++i) {
      sum[i] += (term(r, i) + term(r + 1, i)) + (term(r + 2, i) + term(r + 3, i));
    }
  }
  for (; r < rows; ++r) {
    for (int64_t i = 0; i < width; ++i) sum[i] += term(r, i);
  }
}

/// The value in the compute type. For a bfloat16 that costs one shift, in registers.
template <class S, class T>
[[gnu::always_inline]] inline S wide(T value) {
  return static_cast<S>(value);
}

/// One number for a whole row, read like an array.
template <class S>
struct Same {
  S value;
  S operator[](int64_t) const { return value; }
};

template <BatchNormForm kForm, class S, class T, class P>
[[gnu::always_inline]] inline void apply_row(int64_t width, T* __restrict__ y,
                                             const T* __restrict__ x,
                                             const T* __restrict__ residual, P mean, P scale,
                                             P bias) {
  for (int64_t i = 0; i < width; ++i) {
    S v = math::batch_norm_affine(wide<S>(x[i]) - mean[i], scale[i], bias[i]);
    if constexpr (kForm == BatchNormForm::kAddRelu) v += wide<S>(residual[i]);
    if constexpr (kForm != BatchNormForm::kPlain) v = math::batch_norm_relu(v);
    y[i] = static_cast<T>(v);
  }
}

template <BatchNormForm kForm, class S, class T>
[[gnu::always_inline]] inline void apply_rows(const TileShape& shape, T* __restrict__ y,
                                              const T* __restrict__ x,
                                              const T* __restrict__ residual,
                                              const TileParams<S>& p) {
  for (int64_t r = 0; r < shape.rows; ++r) {
    const int64_t at = r * shape.width;
    const T* add = kForm == BatchNormForm::kAddRelu ? residual + at : nullptr;
    if (shape.channels == ChannelAlong::kColumns) {
      fetch_ahead(x + at, shape.width * int64_t{sizeof(T)});
      fetch_ahead(y + at, shape.width * int64_t{sizeof(T)});
      apply_row<kForm, S>(shape.width, y + at, x + at, add, p.mean, p.scale, p.bias);
    } else {
      apply_row<kForm, S>(shape.width, y + at, x + at, add, Same<S>{p.mean[r]}, Same<S>{p.scale[r]},
                          Same<S>{p.bias[r]});
    }
  }
}

/// dy where the form's relu let the value pass, else 0.
template <BatchNormForm kForm, class S, class T>
[[gnu::always_inline]] inline S passed(S dy, S t, S scale, S bias, const T* y, int64_t i) {
  if constexpr (kForm == BatchNormForm::kRelu) {
    return math::batch_norm_passed(dy, math::batch_norm_affine(t, scale, bias));
  }
  if constexpr (kForm == BatchNormForm::kAddRelu) return math::batch_norm_passed(dy, wide<S>(y[i]));
  return dy;
}

/// What a sum of gradients reads: dy [+ second], x, and for kAddRelu y.
template <class T>
struct GradRows {
  const T *dy, *second, *x, *y;
};

/// What becomes of g beside its sums: nothing; it is written to g_out; g of dy + second is.
enum class KeepG : uint8_t { kNo, kOfDy, kOfSum };

// g_out may be dy or second: the loops read an element before they write it and never later, which
// the compiler is told by LATHE_IVDEP, because `restrict` would be untrue.
template <BatchNormForm kForm, KeepG kKeep, class S, class T>
[[gnu::always_inline]] inline S masked(const GradRows<T>& in, T* g_out, int64_t at, S t, S scale,
                                       S bias) {
  S dy = wide<S>(in.dy[at]);
  if constexpr (kKeep == KeepG::kOfSum) dy += wide<S>(in.second[at]);
  const S g = passed<kForm>(dy, t, scale, bias, in.y, at);
  if constexpr (kKeep != KeepG::kNo) g_out[at] = static_cast<T>(g);
  return g;
}

template <BatchNormForm kForm, KeepG kKeep, class S, class T>
[[gnu::always_inline]] inline void sum_grads_columns(const TileShape& shape, S* __restrict__ sum_g,
                                                     S* __restrict__ sum_gt, T* g_out,
                                                     const GradRows<T>& in,
                                                     const TileParams<S>& p) {
  const int64_t width = shape.width;
  const auto step = [&](int64_t at, int64_t i, S & gt) __attribute__((always_inline)) {
    const S t = wide<S>(in.x[at + i]) - p.mean[i];
    const S g = masked<kForm, kKeep>(in, g_out, at + i, t, p.scale[i], p.bias[i]);
    gt = g * t;
    return g;
  };
  int64_t r = 0;
  for (; r + kGroup <= shape.rows; r += kGroup) {
    const int64_t at = r * width;
    fetch_ahead(in.dy + at, kGroup * width * int64_t{sizeof(T)});
    fetch_ahead(in.x + at, kGroup * width * int64_t{sizeof(T)});
    LATHE_IVDEP
    for (int64_t i = 0; i < width; ++i) {
      S t0, t1, t2, t3;
      const S g0 = step(at, i, t0), g1 = step(at + width, i, t1);
      const S g2 = step(at + 2 * width, i, t2), g3 = step(at + 3 * width, i, t3);
      sum_g[i] += (g0 + g1) + (g2 + g3);
      sum_gt[i] += (t0 + t1) + (t2 + t3);
    }
  }
  for (; r < shape.rows; ++r) {
    LATHE_IVDEP
    for (int64_t i = 0; i < width; ++i) {
      S t;
      sum_g[i] += step(r * width, i, t);
      sum_gt[i] += t;
    }
  }
}

template <BatchNormForm kForm, KeepG kKeep, class S, class T>
[[gnu::always_inline]] inline void sum_grads_rows(const TileShape& shape, S* __restrict__ sum_g,
                                                  S* __restrict__ sum_gt, T* g_out,
                                                  const GradRows<T>& in, const TileParams<S>& p) {
  const int64_t width = shape.width;
  for (int64_t r = 0; r < shape.rows; ++r) {
    const S mean = p.mean[r], scale = p.scale[r], bias = p.bias[r];
    const int64_t at = r * width;
    S acc_g[kPartials] = {}, acc_gt[kPartials] = {};
    const auto step = [&](int64_t i, int j) __attribute__((always_inline)) {
      const S t = wide<S>(in.x[at + i]) - mean;
      const S g = masked<kForm, kKeep>(in, g_out, at + i, t, scale, bias);
      acc_g[j] += g;
      acc_gt[j] += g * t;
    };
    int64_t i = 0;
    for (; i + kPartials <= width; i += kPartials) {
      LATHE_IVDEP
      for (int j = 0; j < kPartials; ++j) step(i + j, j);
    }
    for (int j = 0; i < width; ++i, ++j) step(i, j);
    sum_g[r] += fold(acc_g);
    sum_gt[r] += fold(acc_gt);
  }
}

template <BatchNormForm kForm, KeepG kKeep, class S, class T>
[[gnu::always_inline]] inline void sum_grads(const TileShape& shape, S* __restrict__ sum_g,
                                             S* __restrict__ sum_gt, T* g_out,
                                             const GradRows<T>& in, const TileParams<S>& p) {
  if (shape.channels == ChannelAlong::kColumns) {
    sum_grads_columns<kForm, kKeep>(shape, sum_g, sum_gt, g_out, in, p);
  } else {
    sum_grads_rows<kForm, kKeep>(shape, sum_g, sum_gt, g_out, in, p);
  }
}

template <BatchNormForm kForm, class S, class T, class P>
[[gnu::always_inline]] inline void grad_input_row(int64_t width, T* dx, const T* dy, const T* x,
                                                  const T* __restrict__ y, P mean, P scale, P bias,
                                                  P slope, P offset) {
  // dx may be dy or x.
  LATHE_IVDEP
  for (int64_t i = 0; i < width; ++i) {
    const S t = wide<S>(x[i]) - mean[i];
    const S g = passed<kForm>(wide<S>(dy[i]), t, scale[i], bias[i], y, i);
    dx[i] = static_cast<T>(math::batch_norm_grad(g, t, scale[i], slope[i], offset[i]));
  }
}

template <BatchNormForm kForm, class S, class T>
[[gnu::always_inline]] inline void grad_input_rows(const TileShape& shape, T* dx, const T* dy,
                                                   const T* x, const T* __restrict__ y,
                                                   const TileParams<S>& p) {
  for (int64_t r = 0; r < shape.rows; ++r) {
    const int64_t at = r * shape.width;
    const T* mask = kForm == BatchNormForm::kAddRelu ? y + at : nullptr;
    if (shape.channels == ChannelAlong::kColumns) {
      fetch_ahead(dy + at, shape.width * int64_t{sizeof(T)});
      fetch_ahead(x + at, shape.width * int64_t{sizeof(T)});
      grad_input_row<kForm, S>(shape.width, dx + at, dy + at, x + at, mask, p.mean, p.scale, p.bias,
                               p.slope, p.offset);
    } else {
      grad_input_row<kForm, S>(shape.width, dx + at, dy + at, x + at, mask, Same<S>{p.mean[r]},
                               Same<S>{p.scale[r]}, Same<S>{p.bias[r]}, Same<S>{p.slope[r]},
                               Same<S>{p.offset[r]});
    }
  }
}

/// Calls f with the form as a compile-time constant.
template <class F>
[[gnu::always_inline]] inline void with_form(BatchNormForm form, F f) {
  switch (form) {
    case BatchNormForm::kPlain:
      return f(std::integral_constant<BatchNormForm, BatchNormForm::kPlain>{});
    case BatchNormForm::kRelu:
      return f(std::integral_constant<BatchNormForm, BatchNormForm::kRelu>{});
    case BatchNormForm::kAddRelu:
      return f(std::integral_constant<BatchNormForm, BatchNormForm::kAddRelu>{});
  }
}

}  // namespace

template <class T>
LATHE_CLONES void TileLoops<T>::sums(const TileShape& shape, S* __restrict__ sum,
                                     const T* __restrict__ x) {
  const int64_t width = shape.width;
  if (shape.channels == ChannelAlong::kColumns) {
    column_sums(
        shape.rows, width, sum, x, [&](int64_t r, int64_t i) __attribute__((always_inline)) {
          return wide<S>(x[r * width + i]);
        });
    return;
  }
  for (int64_t r = 0; r < shape.rows; ++r, x += width) {
    sum[r] += row_sum<S>(
        width, [&](int64_t i) __attribute__((always_inline)) { return wide<S>(x[i]); });
  }
}

template <class T>
LATHE_CLONES void TileLoops<T>::squares(const TileShape& shape, S* __restrict__ sum,
                                        const T* __restrict__ x, const S* __restrict__ mean) {
  const int64_t width = shape.width;
  if (shape.channels == ChannelAlong::kColumns) {
    column_sums(
        shape.rows, width, sum, x, [&](int64_t r, int64_t i) __attribute__((always_inline)) {
          const S t = wide<S>(x[r * width + i]) - mean[i];
          return t * t;
        });
    return;
  }
  for (int64_t r = 0; r < shape.rows; ++r, x += width) {
    const S m = mean[r];
    sum[r] += row_sum<S>(
        width, [&](int64_t i) __attribute__((always_inline)) {
          const S t = wide<S>(x[i]) - m;
          return t * t;
        });
  }
}

template <class T>
LATHE_CLONES void TileLoops<T>::apply(const TileShape& shape, BatchNormForm form, T* __restrict__ y,
                                      const T* __restrict__ x, const T* __restrict__ residual,
                                      const TileParams<S>& p) {
  with_form(
      form, [&](auto f)
                __attribute__((always_inline)) { apply_rows<f.value>(shape, y, x, residual, p); });
}

template <class T>
LATHE_CLONES void TileLoops<T>::grad_sums(const TileShape& shape, BatchNormForm form,
                                          S* __restrict__ sum_g, S* __restrict__ sum_gt,
                                          const T* dy, const T* x, const T* y,
                                          const TileParams<S>& p) {
  T* const no_g = nullptr;
  with_form(
      form, [&](auto f) __attribute__((always_inline)) {
        sum_grads<f.value, KeepG::kNo>(shape, sum_g, sum_gt, no_g, {dy, nullptr, x, y}, p);
      });
}

template <class T>
LATHE_CLONES void TileLoops<T>::grad_sums_kept(const TileShape& shape, BatchNormForm form,
                                               S* __restrict__ sum_g, S* __restrict__ sum_gt,
                                               T* g_out, const T* dy, const T* second, const T* x,
                                               const T* y, const TileParams<S>& p) {
  const GradRows<T> in{dy, second, x, y};
  with_form(
      form, [&](auto f) __attribute__((always_inline)) {
        if (second == nullptr) {
          sum_grads<f.value, KeepG::kOfDy>(shape, sum_g, sum_gt, g_out, in, p);
        } else {
          sum_grads<f.value, KeepG::kOfSum>(shape, sum_g, sum_gt, g_out, in, p);
        }
      });
}

template <class T>
LATHE_CLONES void TileLoops<T>::grad_input(const TileShape& shape, BatchNormForm form, T* dx,
                                           const T* dy, const T* x, const T* y,
                                           const TileParams<S>& p) {
  with_form(
      form, [&](auto f) __attribute__((always_inline)) {
        grad_input_rows<f.value>(shape, dx, dy, x, y, p);
      });
}

template struct TileLoops<float>;
template struct TileLoops<BFloat16>;
template struct TileLoops<double>;

LATHE_CLONES void batch_norm_relu_pixels(float* __restrict__ y, const float** pixels, int64_t count,
                                         const float* outside, int64_t channels,
                                         const PixelNorm& norm) {
  for (int64_t i = 0; i < count; ++i, y += channels) {
    if (pixels[i] == outside) continue;
    const float* const no_residual = nullptr;
    apply_row<BatchNormForm::kRelu, float>(channels, y, pixels[i], no_residual, norm.mean,
                                           norm.scale, norm.bias);
    pixels[i] = y;
  }
}

}  // namespace lathe::cpu
