// Winograd's transforms along one side of a tile, on vectors of channels. Included by
// winograd_vector.h, which makes those of whole tiles of them; in an unnamed namespace like it.
//
// F(m x m, 3x3) computes m x m outputs from a tile of (m+2) x (m+2) inputs d and a filter g as
//   y = A^T [(G g G^T) * (B^T d B)] A,
// * element by element: (m+2)^2 products where direct sums have 9 m^2. It follows from
// multiplying polynomials by their values at m + 1 points and infinity. Points are 0, 1, -1 for
// m = 2 and 0, 5/8, -5/8, 3/2, -3/2 for m = 4. The usual 0, 1, -1, 2, -2 have twice the error
// (64 to 256 channels, normal values, root mean square: 0.8 and 1.7e-6 to 1.4 and 3.2e-6), since
// the powers of points far from 1 differ more in size. All constants of A and B are exact in f32.
// The gradient of the filter is the transposed map:  dg = G^T [(B^T d B) * (A dy A^T)] G.
//
// With stride 2, an output is a sum over every other input with the two outer taps, and one product
// with the middle tap: along one side y[k] = d[2k] g0 + d[2k+2] g2 + d[2k+1] g1. The first two are
// F(4,2) over the even inputs, in 5 products for 4 outputs; the third takes 4. Both together are 9
// positions from 9 inputs, of which the last 4 share the filter g1: 81 products for 4x4 outputs,
// where direct sums have 144. The input's gradient is the transposed sum: dx[2k] = dy[k] g1 and
// dx[2k+1] = dy[k] g2 + dy[k+1] g0, which is F(4,2) again.
// ref: Lavin and Gray 2015 (arXiv:1509.09308); Barabasz et al. 2018 (arXiv:1803.10986), points.
#pragma once

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

/// F(4,3). The points p and -p share the even and the odd part of their polynomials.
struct F4 {
  static constexpr int kIn = 6, kOut = 4, kPositions = 6, kFilters = 6, kStep = 4;
  static constexpr float a = 0.625f, b = 1.5f, a2 = a * a, b2 = b * b;
  static constexpr float kZero = 1 / (a2 * b2);          // 1 / the product of (0 - other points)
  static constexpr float kA = 1 / (2 * a2 * (a2 - b2));  // likewise for a and -a
  static constexpr float kB = 1 / (2 * b2 * (b2 - a2));  // and for b and -b

  /// B^T d
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
  /// A^T m
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
  /// G^T p
  [[gnu::always_inline]] static void filter_grad(const Vec* p, Vec* g) {
    const Vec sum_a = p[1] + p[2], sum_b = p[3] + p[4];
    g[0] = kZero * p[0] + kA * sum_a + kB * sum_b;
    g[1] = kA * a * (p[1] - p[2]) + kB * b * (p[3] - p[4]);
    g[2] = p[5] + kA * a2 * sum_a + kB * b2 * sum_b;
  }
};

/// F(2,3).
struct F2 {
  static constexpr int kIn = 4, kOut = 2, kPositions = 4, kFilters = 4, kStep = 2;

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

/// F(4,2), with the points a, -a, b, -b and infinity: y[k] = d[k] g[0] + d[k+1] g[1].
struct TwoTaps {
  static constexpr float a = 0.5f, b = 1.25f, a2 = a * a, b2 = b * b;
  static constexpr float kA = 1 / (2 * a * (a2 - b2));  // 1 / the product of (a - other points)
  static constexpr float kB = 1 / (2 * b * (b2 - a2));

  [[gnu::always_inline]] static void input(const Vec* d, Vec* v) {
    const Vec odd_a = d[3] - b2 * d[1], even_a = d[2] - b2 * d[0];
    v[0] = odd_a + a * even_a;
    v[1] = odd_a - a * even_a;
    const Vec odd_b = d[3] - a2 * d[1], even_b = d[2] - a2 * d[0];
    v[2] = odd_b + b * even_b;
    v[3] = odd_b - b * even_b;
    v[4] = d[4] - (a2 + b2) * d[2] + a2 * b2 * d[0];
  }
  [[gnu::always_inline]] static void output(const Vec* m, Vec* y) {
    const Vec sum_a = m[0] + m[1], difference_a = m[0] - m[1];
    const Vec sum_b = m[2] + m[3], difference_b = m[2] - m[3];
    y[0] = sum_a + sum_b;
    y[1] = a * difference_a + b * difference_b;
    y[2] = a2 * sum_a + b2 * sum_b;
    y[3] = m[4] + a * a2 * difference_a + b * b2 * difference_b;
  }
  [[gnu::always_inline]] static void output_grad(const Vec* y, Vec* v) {
    const Vec even_a = y[0] + a2 * y[2], odd_a = y[1] + a2 * y[3];
    v[0] = even_a + a * odd_a;
    v[1] = even_a - a * odd_a;
    const Vec even_b = y[0] + b2 * y[2], odd_b = y[1] + b2 * y[3];
    v[2] = even_b + b * odd_b;
    v[3] = even_b - b * odd_b;
    v[4] = y[3];
  }
  [[gnu::always_inline]] static void filter(Vec g0, Vec g1, Vec* u) {
    u[0] = kA * g0 + kA * a * g1;
    u[1] = kA * a * g1 - kA * g0;
    u[2] = kB * g0 + kB * b * g1;
    u[3] = kB * b * g1 - kB * g0;
    u[4] = g1;
  }
  [[gnu::always_inline]] static void filter_grad(const Vec* p, Vec* g0, Vec* g1) {
    *g0 = kA * (p[0] - p[1]) + kB * (p[2] - p[3]);
    *g1 = kA * a * (p[0] + p[1]) + kB * b * (p[2] + p[3]) + p[4];
  }
};

/// Filters of stride 2: those of the outer taps, then the middle tap.
struct Stride2Filters {
  static constexpr int kPositions = 9, kFilters = 6;

  [[gnu::always_inline]] static void filter(const Vec* g, Vec* u) {
    TwoTaps::filter(g[0], g[2], u);
    u[5] = g[1];
  }
  [[gnu::always_inline]] static void filter_grad(const Vec* p, Vec* g) {
    TwoTaps::filter_grad(p, &g[0], &g[2]);
    g[1] = p[5];
  }
};

/// Stride 2: 4 outputs.
struct Stride2 : Stride2Filters {
  static constexpr int kIn = 9, kOut = 4, kStep = 8;

  [[gnu::always_inline]] static void input(const Vec* d, Vec* v) {
    const Vec even[5] = {d[0], d[2], d[4], d[6], d[8]};
    TwoTaps::input(even, v);
    for (int k = 0; k < 4; ++k) v[5 + k] = d[2 * k + 1];
  }
  [[gnu::always_inline]] static void output(const Vec* m, Vec* y) {
    TwoTaps::output(m, y);
    for (int k = 0; k < 4; ++k) y[k] += m[5 + k];
  }
  [[gnu::always_inline]] static void output_grad(const Vec* y, Vec* v) {
    TwoTaps::output_grad(y, v);
    for (int k = 0; k < 4; ++k) v[5 + k] = y[k];
  }
};

/// The input gradient of stride 2, with turned filters: 8 pixels of dx, the first of which only the
/// middle tap reaches, from 5 of dy.
struct Stride2Transpose : Stride2Filters {
  static constexpr int kIn = 5, kOut = 8, kStep = 4;

  [[gnu::always_inline]] static void input(const Vec* d, Vec* v) {
    TwoTaps::input(d, v);
    for (int k = 0; k < 4; ++k) v[5 + k] = d[k];
  }
  [[gnu::always_inline]] static void output(const Vec* m, Vec* y) {
    Vec odd[4];
    TwoTaps::output(m, odd);
    for (int k = 0; k < 4; ++k) {
      y[2 * k] = m[5 + k];
      y[2 * k + 1] = odd[k];
    }
  }
};

}  // namespace

}  // namespace lathe::cpu
