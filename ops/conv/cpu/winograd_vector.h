// Winograd's transforms and products in vector code of the compiler's widest registers. Included by
// the files that compile it, one per instruction set (winograd_kernels.h). All is in an unnamed
// namespace, and nothing of the standard library is called: an inline function that two of these
// files define could be linked from the one for the newer processor.
#pragma once

#include "lathe/ops/conv/cpu/winograd_kernels.h"
#include "lathe/ops/conv/cpu/winograd_transforms.h"

namespace lathe::cpu {

namespace {

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

// --- two dimensions --------------------------------------------------------------------------

/// M d M^T for the 1-d transform M of kFrom values to kTo. get(i, j) reads d, put(i, j, v) takes
/// the result.
template <int kFrom, int kTo, class Get, class Put>
[[gnu::always_inline]] inline void transform_2d(void (*transform)(const Vec*, Vec*), Get get,
                                                Put put) {
  Vec half[kTo][kFrom];
#pragma GCC unroll 9
  for (int j = 0; j < kFrom; ++j) {
    Vec column[kFrom], out[kTo];
#pragma GCC unroll 9
    for (int i = 0; i < kFrom; ++i) column[i] = get(i, j);
    transform(column, out);
#pragma GCC unroll 9
    for (int i = 0; i < kTo; ++i) half[i][j] = out[i];
  }
#pragma GCC unroll 9
  for (int i = 0; i < kTo; ++i) {
    Vec out[kTo];
    transform(half[i], out);
#pragma GCC unroll 9
    for (int j = 0; j < kTo; ++j) put(i, j, out[j]);
  }
}

template <class F>
void transform_input(const WinogradMatrices& v, const float* const* d, int64_t channels) {
  constexpr int kIn = F::kIn, kPositions = F::kPositions;
  for_vectors(channels, [&](int64_t c, auto memory) {
    transform_2d<kIn, kPositions>(
        F::input, [&](int i, int j) { return memory.load(d[i * kIn + j] + c); },
        [&](int i, int j, Vec value) {
          Whole::store(v.data + (i * kPositions + j) * v.position_step + c, value);
        });
  });
}

template <class F>
void transform_output_grad(const WinogradMatrices& v, const float* const* dy, int64_t channels) {
  constexpr int kOut = F::kOut, kPositions = F::kPositions;
  for_vectors(channels, [&](int64_t c, auto memory) {
    transform_2d<kOut, kPositions>(
        F::output_grad, [&](int i, int j) { return memory.load(dy[i * kOut + j] + c); },
        [&](int i, int j, Vec value) {
          Whole::store(v.data + (i * kPositions + j) * v.position_step + c, value);
        });
  });
}

template <class F>
void transform_output(float* const* y, const WinogradMatrices& m, int64_t channels,
                      const WinogradEpilogue& then) {
  constexpr int kOut = F::kOut, kPositions = F::kPositions;
  for_vectors(channels, [&](int64_t c, auto memory) {
    const Vec add = then.bias != nullptr ? memory.load(then.bias + c) : Vec{};
    transform_2d<kPositions, kOut>(
        F::output,
        [&](int i, int j) {
          return Whole::load(m.data + (i * kPositions + j) * m.position_step + c);
        },
        [&](int i, int j, Vec value) {
          value += add;
          if (then.residual != nullptr) value += memory.load(then.residual[i * kOut + j] + c);
          if (then.relu) value = value < 0.f ? Vec{} : value;
          memory.store(y[i * kOut + j] + c, value);
        });
  });
}

/// Transforms filters if the filters of neighbouring outputs lie side by side, as do those of the
/// input's gradient in channels-last order.
template <class F>
void transform_neighbours(const WinogradMatrices& u, const WinogradFilters& g, int64_t ins,
                          int64_t outs) {
  constexpr int kFilters = F::kFilters;
  for (int64_t in = 0; in < ins; ++in) {
    for_vectors(outs, [&](int64_t out, auto memory) {
      const float* const from = g.data + in * g.in_step + out;
      float* const to = u.data + in * u.row_step + out;
      transform_2d<3, kFilters>(
          F::filter, [&](int i, int j) { return memory.load(from + g.tap[i * 3 + j]); },
          [&](int i, int j, Vec v) { Whole::store(to + (i * kFilters + j) * u.position_step, v); });
    });
  }
}

/// The elements i of a, b, a, b and so on.
template <int... i>
[[gnu::always_inline]] inline Vec shuffled(Vec a, Vec b) {
  return __builtin_shufflevector(a, b, i...);
}

/// Rows become columns: kLanes times, the lower and the upper half are shuffled like cards.
template <int kCount>
[[gnu::always_inline]] inline void transpose(Vec (&m)[kCount]) {
  for (int round = 1; round < kCount; round *= 2) {
    Vec t[kCount];
#pragma GCC unroll 8
    for (int i = 0; i < kCount / 2; ++i) {
      const Vec a = m[i], b = m[i + kCount / 2];
      if constexpr (kCount == 16) {
        t[2 * i] = shuffled<0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23>(a, b);
        t[2 * i + 1] = shuffled<8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31>(a, b);
      } else if constexpr (kCount == 8) {
        t[2 * i] = shuffled<0, 8, 1, 9, 2, 10, 3, 11>(a, b);
        t[2 * i + 1] = shuffled<4, 12, 5, 13, 6, 14, 7, 15>(a, b);
      } else {
        t[2 * i] = shuffled<0, 4, 1, 5>(a, b);
        t[2 * i + 1] = shuffled<2, 6, 3, 7>(a, b);
      }
    }
#pragma GCC unroll 16
    for (int i = 0; i < kCount; ++i) m[i] = t[i];
  }
}

/// Filters of kLanes inputs and kLanes outputs, [in, tap, out].
struct CollectedFilters {
  alignas(Vec) float numbers[kLanes * 9 * kLanes] = {};

  /// The outputs' numbers of one tap.
  [[gnu::always_inline]] float* at(int64_t in, int64_t tap) {
    return numbers + (in * 9 + tap) * kLanes;
  }

  /// Collects the numbers of the first `ins` inputs and `outs` outputs at `from`.
  void collect(const float* from, const WinogradFilters& g, int64_t ins, int64_t outs) {
    const bool whole = ins == kLanes && outs == kLanes;
    if (whole && g.in_step == 1) {  // channels last
      for (int tap = 0; tap < 9; ++tap) {
        collect_square(at(0, tap), 9 * kLanes, from + g.tap[tap], g.out_step);
      }
      return;
    }
    if (whole && g.in_step == 9 && g.tap[0] == 0 && g.tap[1] == 1 && g.tap[3] == 3) {  // taps last
      for (int i = 0; i < 9; ++i) {
        collect_square(numbers + i * kLanes * kLanes, kLanes, from + i * kLanes, g.out_step);
      }
      return;
    }
    for (int64_t out = 0; out < outs; ++out) {
      for (int64_t in = 0; in < ins; ++in) {
        const float* const filter = from + out * g.out_step + in * g.in_step;
        for (int tap = 0; tap < 9; ++tap) at(in, tap)[out] = filter[g.tap[tap]];
      }
    }
  }

 private:
  /// to[i * to_step + j] = from[j * from_step + i].
  [[gnu::noinline]] static void collect_square(float* to, int64_t to_step, const float* from,
                                               int64_t from_step) {
    Vec m[kLanes];
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) m[i] = Whole::load(from + i * from_step);
    transpose(m);
#pragma GCC unroll 16
    for (int i = 0; i < kLanes; ++i) Whole::store(to + i * to_step, m[i]);
  }
};

/// Several filters are collected before the first is transformed: a vector cannot be read from
/// elements that were written just before it.
template <class F>
void transform_filters(const WinogradMatrices& u, const WinogradFilters& g, int64_t ins,
                       int64_t outs) {
  if (g.out_step == 1) return transform_neighbours<F>(u, g, ins, outs);
  constexpr int kFilters = F::kFilters;
  CollectedFilters filters;
  for (int64_t out = 0; out < outs; out += kLanes) {
    const int64_t lanes = outs - out < kLanes ? outs - out : kLanes;
    for (int64_t first = 0; first < ins; first += kLanes) {
      const int64_t count = ins - first < kLanes ? ins - first : kLanes;
      filters.collect(g.data + out * g.out_step + first * g.in_step, g, count, lanes);
      for (int64_t in = 0; in < count; ++in) {
        float* const to = u.data + (first + in) * u.row_step + out;
        transform_2d<3, kFilters>(
            F::filter, [&](int i, int j) { return Whole::load(filters.at(in, i * 3 + j)); },
            [&](int i, int j, Vec v) {
              Whole::store(to + (i * kFilters + j) * u.position_step, v);
            });
      }
    }
  }
}

template <class F>
void transform_filters_grad(float* dw, int64_t tap_step, int64_t out_step,
                            const WinogradMatrices& p, int64_t outs, int64_t ins) {
  constexpr int kFilters = F::kFilters;
  for (int64_t out = 0; out < outs; ++out) {
    for_vectors(ins, [&](int64_t in, auto memory) {
      transform_2d<kFilters, 3>(
          F::filter_grad,
          [&](int i, int j) {
            return Whole::load(p.data + (i * kFilters + j) * p.position_step + out * p.row_step +
                               in);
          },
          [&](int i, int j, Vec value) {
            memory.store(dw + (i * 3 + j) * tap_step + out * out_step + in, value);
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
  // Few registers hold the addresses of all rows: a group's first, and steps to the others.
  constexpr int kGroup = kRows % 3 == 0 ? 3 : kRows % 2 == 0 ? 2 : 1;
  const float* a[kRows / kGroup];
  for (int i = 0; i < kRows / kGroup; ++i) a[i] = p.a + (row + i * kGroup) * p.a_row;
  const float* b = p.b + col;
  const int64_t a_row = p.a_row, a_col = p.a_col, b_row = p.b_row, c_row = p.c_row;
  const float* fetched = p.fetch + row / kRows * p.depth * fetch_step;
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
      const float left = a[i / kGroup][i % kGroup * a_row];
#pragma GCC unroll 4
      for (int j = 0; j < kVectors; ++j) sum[i][j] += left * right[j];
    }
    __builtin_prefetch(fetched, 0, 2);
    fetched += fetch_step;
#pragma GCC unroll 24
    for (int i = 0; i < kRows / kGroup; ++i) a[i] += a_col;
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
  const int64_t steps = (p.rows + kRows - 1) / kRows * p.depth;
  const int64_t fetch_step = p.fetch_floats / steps + 1;
  const int64_t rest = p.rows_only ? p.rows % kRows : 0;
  for (int64_t row = 0; row < p.rows - rest; row += kRows) {
    product_tile<kRows, kVectors>(p, row, col, fetch_step);
  }
  for (int64_t row = p.rows - rest; row < p.rows; ++row) {
    product_tile<1, kVectors>(p, row, col, fetch_step);
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

// --- what a batch norm wants to know ---------------------------------------------------------

void moments(float* sums, float* squares, const float* shift, const float* const* y, int64_t count,
             int64_t channels) {
  for_vectors(channels, [&](int64_t c, auto memory) {
    const Vec from = memory.load(shift + c);
    Vec sum[2] = {memory.load(sums + c)}, square[2] = {memory.load(squares + c)};
    int64_t i = 0;
    for (; i + 2 <= count; i += 2) {
#pragma GCC unroll 2
      for (int j = 0; j < 2; ++j) {
        const Vec d = memory.load(y[i + j] + c) - from;
        sum[j] += d;
        square[j] += d * d;
      }
    }
    if (i < count) {
      const Vec d = memory.load(y[i] + c) - from;
      sum[0] += d;
      square[0] += d * d;
    }
    memory.store(sums + c, sum[0] + sum[1]);
    memory.store(squares + c, square[0] + square[1]);
  });
}

/// All but the gradient of the filters.
template <class F>
constexpr WinogradKernels output_kernels() {
  return {.lanes = kLanes,
          .inputs = F::kIn,
          .outputs = F::kOut,
          .positions = F::kPositions,
          .filters = F::kFilters,
          .step = F::kStep,
          .transform_input = transform_input<F>,
          .transform_output_grad = nullptr,
          .transform_output = transform_output<F>,
          .transform_filters = transform_filters<F>,
          .transform_filters_grad = nullptr,
          .product = product,
          .moments = moments};
}

template <class F>
constexpr WinogradKernels kernels_of() {
  WinogradKernels kernels = output_kernels<F>();
  kernels.transform_output_grad = transform_output_grad<F>;
  kernels.transform_filters_grad = transform_filters_grad<F>;
  return kernels;
}

constexpr WinogradKernelSet kKernels = {kernels_of<F4>(), kernels_of<F2>(), kernels_of<Stride2>(),
                                        output_kernels<Stride2Transpose>()};

}  // namespace

}  // namespace lathe::cpu
