// Winograd's transforms and products in vector code of the compiler's widest registers. Included by
// the files that compile it, one per instruction set (winograd_kernels.h). All is in an unnamed
// namespace, and nothing of the standard library is called: an inline function that two of these
// files define could be linked from the one for the newer processor.
//
// F(m x m, 3x3) computes m x m outputs from a tile of (m+2) x (m+2) inputs d and a filter g as
//   y = A' [(G g G') * (B' d B)] A,
// * element by element: (m+2)^2 products where direct sums have 9 m^2. It follows from
// multiplying polynomials by their values at m + 1 points and infinity. Points are 0, 1, -1 for
// m = 2 and 0, 5/8, -5/8, 3/2, -3/2 for m = 4. The usual 0, 1, -1, 2, -2 have twice the error
// (64 to 256 channels, normal values, root mean square: 0.8 and 1.7e-6 to 1.4 and 3.2e-6), since
// the powers of points far from 1 differ more in size. All constants of A and B are exact in f32.
// The gradient of the filter is the transposed map:  dg = G' [(B' d B) * (A dy A')] G.
// ref: Lavin and Gray 2015 (arXiv:1509.09308); Barabasz et al. 2018 (arXiv:1803.10986), points.
#pragma once

#include "lathe/ops/conv/winograd_kernels.h"

namespace lathe::cpu {

namespace {

#if defined(__AVX512F__)
constexpr int kLanes = 16;
#elif defined(__AVX__)
constexpr int kLanes = 8;
#else
constexpr int kLanes = 4;
#endif

using Vec = float __attribute__((vector_size(kLanes * sizeof(float))));
using LooseVec [[gnu::aligned(alignof(float)), gnu::may_alias]] = Vec;

/// How a vector is read and written: whole, or the first `count` of its elements.
struct Whole {
  [[gnu::always_inline]] static Vec load(const float* p) {
    return *reinterpret_cast<const LooseVec*>(p);
  }
  [[gnu::always_inline]] static void store(float* p, Vec v) { *reinterpret_cast<LooseVec*>(p) = v; }
};
struct Part {
  int count;
  Vec load(const float* p) const {
    Vec v = {};
    for (int i = 0; i < count; ++i) v[i] = p[i];
    return v;
  }
  void store(float* p, Vec v) const {
    for (int i = 0; i < count; ++i) p[i] = v[i];
  }
};

/// Calls f(c, Whole or Part) for the first channel c of each vector.
template <class F>
[[gnu::always_inline]] inline void for_vectors(int64_t channels, F f) {
  int64_t c = 0;
  for (; c + kLanes <= channels; c += kLanes) f(c, Whole{});
  if (c < channels) f(c, Part{static_cast<int>(channels - c)});
}

// --- one-dimensional transforms --------------------------------------------------------------

/// F(4,3). The points p and -p share the even and the odd part of their polynomials.
struct F4 {
  static constexpr int kOut = 4, kTile = 6;
  static constexpr float a = 0.625f, b = 1.5f, a2 = a * a, b2 = b * b;
  static constexpr float kZero = 1 / (a2 * b2);          // 1 / the product of (0 - other points)
  static constexpr float kA = 1 / (2 * a2 * (a2 - b2));  // likewise for a and -a
  static constexpr float kB = 1 / (2 * b2 * (b2 - a2));  // and for b and -b

  /// B' d
  [[gnu::always_inline]] static void input(const Vec* d, Vec* v) {
    v[0] = d[4] - (a2 + b2) * d[2] + a2 * b2 * d[0];
    const Vec even_a = d[4] - b2 * d[2], odd_a = d[3] - b2 * d[1];
    v[1] = even_a + a * odd_a;
    v[2] = even_a - a * odd_a;
    const Vec even_b = d[4] - a2 * d[2], odd_b = d[3] - a2 * d[1];
    v[3] = even_b + b * odd_b;
    v[4] = even_b - b * odd_b;
    v[5] = d[5] - (a2 + b2) * d[3] + a2 * b2 * d[1];
  }
  /// A' m
  [[gnu::always_inline]] static void output(const Vec* m, Vec* y) {
    const Vec sum_a = m[1] + m[2], difference_a = m[1] - m[2];
    const Vec sum_b = m[3] + m[4], difference_b = m[3] - m[4];
    y[0] = m[0] + sum_a + sum_b;
    y[1] = a * difference_a + b * difference_b;
    y[2] = a2 * sum_a + b2 * sum_b;
    y[3] = m[5] + a * a2 * difference_a + b * b2 * difference_b;
  }
  /// A dy
  [[gnu::always_inline]] static void output_grad(const Vec* y, Vec* v) {
    v[0] = y[0];
    const Vec even_a = y[0] + a2 * y[2], odd_a = y[1] + a2 * y[3];
    v[1] = even_a + a * odd_a;
    v[2] = even_a - a * odd_a;
    const Vec even_b = y[0] + b2 * y[2], odd_b = y[1] + b2 * y[3];
    v[3] = even_b + b * odd_b;
    v[4] = even_b - b * odd_b;
    v[5] = y[3];
  }
  /// G g
  [[gnu::always_inline]] static void filter(const Vec* g, Vec* u) {
    u[0] = kZero * g[0];
    const Vec even_a = kA * g[0] + kA * a2 * g[2], odd_a = kA * a * g[1];
    u[1] = even_a + odd_a;
    u[2] = even_a - odd_a;
    const Vec even_b = kB * g[0] + kB * b2 * g[2], odd_b = kB * b * g[1];
    u[3] = even_b + odd_b;
    u[4] = even_b - odd_b;
    u[5] = g[2];
  }
  /// G' p
  [[gnu::always_inline]] static void filter_grad(const Vec* p, Vec* g) {
    const Vec sum_a = p[1] + p[2], sum_b = p[3] + p[4];
    g[0] = kZero * p[0] + kA * sum_a + kB * sum_b;
    g[1] = kA * a * (p[1] - p[2]) + kB * b * (p[3] - p[4]);
    g[2] = p[5] + kA * a2 * sum_a + kB * b2 * sum_b;
  }
};

/// F(2,3).
struct F2 {
  static constexpr int kOut = 2, kTile = 4;

  [[gnu::always_inline]] static void input(const Vec* d, Vec* v) {
    v[0] = d[0] - d[2];
    v[1] = d[2] + d[1];
    v[2] = d[2] - d[1];
    v[3] = d[3] - d[1];
  }
  [[gnu::always_inline]] static void output(const Vec* m, Vec* y) {
    y[0] = m[0] + m[1] + m[2];
    y[1] = m[1] - m[2] + m[3];
  }
  [[gnu::always_inline]] static void output_grad(const Vec* y, Vec* v) {
    v[0] = y[0];
    v[1] = y[0] + y[1];
    v[2] = y[0] - y[1];
    v[3] = y[1];
  }
  [[gnu::always_inline]] static void filter(const Vec* g, Vec* u) {
    const Vec even = 0.5f * (g[0] + g[2]), odd = 0.5f * g[1];
    u[0] = g[0];
    u[1] = even + odd;
    u[2] = even - odd;
    u[3] = g[2];
  }
  [[gnu::always_inline]] static void filter_grad(const Vec* p, Vec* g) {
    const Vec half = 0.5f * (p[1] + p[2]);
    g[0] = p[0] + half;
    g[1] = 0.5f * (p[1] - p[2]);
    g[2] = half + p[3];
  }
};

// --- two dimensions --------------------------------------------------------------------------

/// M d M' for the 1-d transform M of kFrom values to kTo. get(i, j) reads d, put(i, j, v) takes the
/// result.
template <int kFrom, int kTo, class Get, class Put>
[[gnu::always_inline]] inline void transform_2d(void (*transform)(const Vec*, Vec*), Get get,
                                                Put put) {
  Vec half[kTo][kFrom];
#pragma GCC unroll 6
  for (int j = 0; j < kFrom; ++j) {
    Vec column[kFrom], out[kTo];
#pragma GCC unroll 6
    for (int i = 0; i < kFrom; ++i) column[i] = get(i, j);
    transform(column, out);
#pragma GCC unroll 6
    for (int i = 0; i < kTo; ++i) half[i][j] = out[i];
  }
#pragma GCC unroll 6
  for (int i = 0; i < kTo; ++i) {
    Vec out[kTo];
    transform(half[i], out);
#pragma GCC unroll 6
    for (int j = 0; j < kTo; ++j) put(i, j, out[j]);
  }
}

template <class F>
void input(const WinogradMatrices& v, const float* const* d, int64_t channels) {
  constexpr int kTile = F::kTile;
  for_vectors(channels, [&](int64_t c, auto memory) {
    transform_2d<kTile, kTile>(
        F::input, [&](int i, int j) { return memory.load(d[i * kTile + j] + c); },
        [&](int i, int j, Vec value) {
          Whole::store(v.data + (i * kTile + j) * v.position_step + c, value);
        });
  });
}

template <class F>
void output_grad(const WinogradMatrices& v, const float* const* dy, int64_t channels) {
  constexpr int kTile = F::kTile, kOut = F::kOut;
  for_vectors(channels, [&](int64_t c, auto memory) {
    transform_2d<kOut, kTile>(
        F::output_grad, [&](int i, int j) { return memory.load(dy[i * kOut + j] + c); },
        [&](int i, int j, Vec value) {
          Whole::store(v.data + (i * kTile + j) * v.position_step + c, value);
        });
  });
}

template <class F>
void output(float* const* y, const WinogradMatrices& m, int64_t channels, const float* bias) {
  constexpr int kTile = F::kTile, kOut = F::kOut;
  for_vectors(channels, [&](int64_t c, auto memory) {
    const Vec add = bias != nullptr ? memory.load(bias + c) : Vec{};
    transform_2d<kTile, kOut>(
        F::output,
        [&](int i, int j) { return Whole::load(m.data + (i * kTile + j) * m.position_step + c); },
        [&](int i, int j, Vec value) { memory.store(y[i * kOut + j] + c, value + add); });
  });
}

/// Several filters are collected before the first is transformed: a vector cannot be read from
/// elements that were written just before it.
template <class F>
void filters(const WinogradMatrices& u, const WinogradFilters& g, int64_t ins, int64_t outs) {
  constexpr int kTile = F::kTile, kAtOnce = 8;
  alignas(Vec) float taps[kAtOnce][9][kLanes] = {};
  for (int64_t out = 0; out < outs; out += kLanes) {
    const int64_t lanes = outs - out < kLanes ? outs - out : kLanes;
    for (int64_t first = 0; first < ins; first += kAtOnce) {
      const int64_t count = ins - first < kAtOnce ? ins - first : kAtOnce;
      for (int64_t lane = 0; lane < lanes; ++lane) {
        const float* from = g.data + (out + lane) * g.out_step + first * g.in_step;
        for (int64_t in = 0; in < count; ++in, from += g.in_step) {
          for (int tap = 0; tap < 9; ++tap) taps[in][tap][lane] = from[g.tap[tap]];
        }
      }
      for (int64_t in = 0; in < count; ++in) {
        float* const to = u.data + (first + in) * u.row_step + out;
        transform_2d<3, kTile>(
            F::filter, [&](int i, int j) { return Whole::load(taps[in][i * 3 + j]); },
            [&](int i, int j, Vec v) { Whole::store(to + (i * kTile + j) * u.position_step, v); });
      }
    }
  }
}

template <class F>
void filters_grad(float* dw, int64_t tap_step, int64_t in_step, const WinogradMatrices& p,
                  int64_t ins, int64_t outs) {
  constexpr int kTile = F::kTile;
  for (int64_t in = 0; in < ins; ++in) {
    for_vectors(outs, [&](int64_t out, auto memory) {
      transform_2d<kTile, 3>(
          F::filter_grad,
          [&](int i, int j) {
            return Whole::load(p.data + (i * kTile + j) * p.position_step + in * p.row_step + out);
          },
          [&](int i, int j, Vec value) {
            memory.store(dw + (i * 3 + j) * tap_step + in * in_step + out, value);
          });
    });
  }
}

// --- products --------------------------------------------------------------------------------

/// kRows x kVectors vectors of c, which stay in registers while a and b are read once. One element
/// of a serves kVectors multiplications, one vector of b serves kRows.
template <int kRows, int kVectors>
[[gnu::noinline]] void product_tile(const WinogradProduct& p, int64_t row, int64_t col,
                                    int64_t fetch_step) {
  float* const c = p.c + row * p.c_row + col;
  const float* a = p.a + row * p.a_row;
  const float* b = p.b + col;
  const int64_t a_row = p.a_row, a_col = p.a_col, b_row = p.b_row, c_row = p.c_row;
  const float* fetched = p.next_b + row / kRows * p.depth * fetch_step;
  Vec sum[kRows][kVectors] = {};
  if (p.add) {
#pragma GCC unroll 24
    for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sum[i][j] = Whole::load(c + i * c_row + j * kLanes);
    }
  }
  for (int64_t k = 0; k < p.depth; ++k) {
    Vec right[kVectors];
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) right[j] = Whole::load(b + j * kLanes);
#pragma GCC unroll 24
    for (int i = 0; i < kRows; ++i) {
      const float left = a[i * a_row];
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sum[i][j] += left * right[j];
    }
    __builtin_prefetch(fetched, 0, 2);
    fetched += fetch_step;
    a += a_col;
    b += b_row;
  }
#pragma GCC unroll 24
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 4
    for (int j = 0; j < kVectors; ++j) Whole::store(c + i * c_row + j * kLanes, sum[i][j]);
  }
}

template <int kRows, int kVectors>
void product_columns(const WinogradProduct& p, int64_t col) {
  static_assert(kWinogradRows % kRows == 0);
  const int64_t fetch_step = p.b_row * kRows / (p.rows + kRows - 1) + 1;  // together all of next_b
  for (int64_t row = 0; row < p.rows; row += kRows) {
    product_tile<kRows, kVectors>(p, row, col, fetch_step);
  }
}

void product(const WinogradProduct& p) {
#if defined(__AVX512F__) || defined(__aarch64__)  // 32 registers
  constexpr int kWidest = 4;
#else  // 16
  constexpr int kWidest = 2;
#endif
  for (int64_t col = 0; col < p.cols; col += kWidest * kLanes) {
    const int64_t left = (p.cols - col + kLanes - 1) / kLanes;
    if constexpr (kWidest == 4) {
      if (left >= 4) {
        product_columns<6, 4>(p, col);
        continue;
      }
      if (left == 3) {
        product_columns<8, 3>(p, col);
        continue;
      }
      if (left == 2) {
        product_columns<12, 2>(p, col);
        continue;
      }
    } else if (left >= 2) {
      product_columns<6, 2>(p, col);
      continue;
    }
    product_columns<12, 1>(p, col);
  }
}

template <class F>
constexpr WinogradKernels kernels_of() {
  return {.lanes = kLanes,
          .input = input<F>,
          .output_grad = output_grad<F>,
          .output = output<F>,
          .filters = filters<F>,
          .filters_grad = filters_grad<F>,
          .product = product};
}

constexpr WinogradKernelSet kKernels = {kernels_of<F4>(), kernels_of<F2>()};

}  // namespace

}  // namespace lathe::cpu
