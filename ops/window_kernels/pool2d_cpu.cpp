// CPU kernels of max pooling. A row of windows is computed at once, tap by tap, so that the inner
// loop runs over neighbouring windows (row-major) or channels (NHWC) and has no branches. Contract:
// pool2d.h.
#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>
#include <vector>

#include "lathe/core/fetch_ahead.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/ops/pool2d.h"
#include "lathe/ops/window_kernels/pool2d_math.h"

namespace lathe::cpu {

namespace {

/// Half types are compared, and summed up, in f32.
template <class T>
inline constexpr bool kIsWidened = !std::is_same_v<T, ComputeType<T>>;

/// The first tap of window i inside the input, or -1.
int64_t first_tap(const PoolAxis& axis, int64_t i) {
  for (int64_t k = 0; k < axis.kernel; ++k) {
    if (axis.holds(i, k)) return k;
  }
  return -1;
}

/// Compares best[i], index[i] with x[i * step], whose position is `at + i * at_step`.
template <class T>
[[gnu::always_inline]] inline void take_loop(T* __restrict__ best, int32_t* __restrict__ index,
                                             const T* __restrict__ x, int64_t n, int64_t step,
                                             int32_t at, int32_t at_step) {
  for (int64_t i = 0; i < n; ++i) {
    take_larger(best[i], index[i], x[i * step], at + static_cast<int32_t>(i) * at_step);
  }
}

/// The same, with the usual steps as constants: 1 for neighbouring channels and for windows with
/// stride 1, 2 for windows with stride 2.
template <class T>
[[gnu::always_inline]] inline void take_steps(T* __restrict__ best, int32_t* __restrict__ index,
                                              const T* __restrict__ x, int64_t n, int64_t step,
                                              int32_t at, int32_t at_step) {
  if (step == 1) {
    take_loop(best, index, x, n, 1, at, at_step);
  } else if (step == 2) {
    take_loop(best, index, x, n, 2, at, 2);
  } else {
    take_loop(best, index, x, n, step, at, at_step);
  }
}

template <class T>
void take_row(T* best, int32_t* index, const T* x, int64_t n, int64_t step, int32_t at,
              int32_t at_step) {
  take_steps(best, index, x, n, step, at, at_step);
}
LATHE_CLONES void take_row(float* __restrict__ best, int32_t* __restrict__ index,
                           const float* __restrict__ x, int64_t n, int64_t step, int32_t at,
                           int32_t at_step) {
  take_steps(best, index, x, n, step, at, at_step);
}

/// What all rows of windows share along the columns.
struct Columns {
  explicit Columns(const PoolAxis& axis_in) : axis(axis_in) {
    for (int64_t q = 0; q < axis.out; ++q) {
      const int64_t tap = first_tap(axis, q);
      first.push_back(tap < 0 ? -1 : axis.place(q, tap));
    }
    for (int64_t s = 0; s < axis.kernel; ++s) {
      int64_t begin = 0, end = axis.out;
      while (begin < end && !axis.holds(begin, s)) ++begin;
      while (end > begin && !axis.holds(end - 1, s)) --end;
      inside.emplace_back(begin, end);
    }
  }
  PoolAxis axis;
  std::vector<int64_t> first;                       // per window: its first position inside, or -1
  std::vector<std::pair<int64_t, int64_t>> inside;  // per tap: the windows in which it is inside
};

/// y and index of the windows in row p of one row-major plane.
template <class T>
void max_row(T* y, int32_t* index, const T* x, int64_t p, const PoolAxis& rows,
             const Columns& columns) {
  const PoolAxis& cols = columns.axis;
  const int64_t first_row = first_tap(rows, p);
  const int64_t row_start = first_row < 0 ? 0 : rows.place(p, first_row) * cols.in;
  for (int64_t q = 0; q < cols.out; ++q) {  // the first element, so that -inf has a position too
    const int64_t column = first_row < 0 ? -1 : columns.first[static_cast<size_t>(q)];
    index[q] = static_cast<int32_t>(column < 0 ? -1 : row_start + column);
    y[q] = column < 0 ? T(-std::numeric_limits<float>::infinity()) : x[row_start + column];
  }
  for (int64_t r = 0; r < rows.kernel; ++r) {
    if (!rows.holds(p, r)) continue;
    for (int64_t s = 0; s < cols.kernel; ++s) {
      const auto [begin, end] = columns.inside[static_cast<size_t>(s)];
      if (begin == end) continue;
      const int64_t start = rows.place(p, r) * cols.in + cols.place(begin, s);
      take_row(y + begin, index + begin, x + start, end - begin, cols.stride,
               static_cast<int32_t>(start), static_cast<int32_t>(cols.stride));
    }
  }
}

/// Copies a row of values and of the position where they stand.
template <class T>
void copy_row(T* __restrict__ best, int32_t* __restrict__ index, const T* __restrict__ x, int64_t n,
              int32_t at) {
  std::copy_n(x, n, best);
  std::fill_n(index, n, at);
}

/// The same for NHWC: all channels of a window at once. `wide` has memory for 2 * channels floats,
/// in which half types are compared.
template <class T>
void max_row_nhwc(T* y, int32_t* index, const T* x, int64_t channels, int64_t p,
                  const PoolAxis& rows, const PoolAxis& cols, float* wide) {
  for (int64_t q = 0; q < cols.out; ++q, y += channels, index += channels) {
    std::fill_n(y, channels, T(-std::numeric_limits<float>::infinity()));
    std::fill_n(index, channels, -1);
    bool first = true;
    for (int64_t r = 0; r < rows.kernel; ++r) {
      if (!rows.holds(p, r)) continue;
      for (int64_t s = 0; s < cols.kernel; ++s) {
        if (!cols.holds(q, s)) continue;
        const int64_t at = rows.place(p, r) * cols.in + cols.place(q, s);
        const auto at32 = static_cast<int32_t>(at);
        const T* from = x + at * channels;
        fetch_ahead(from, channels * int64_t{sizeof(T)});
        const bool begins = std::exchange(first, false);
        if constexpr (kIsWidened<T>) {
          float* const best = wide;
          float* const row = begins ? best : wide + channels;
          convert(row, from, channels);
          if (begins) {
            std::fill_n(index, channels, at32);
          } else {
            take_row(best, index, row, channels, 1, at32, 0);
          }
        } else if (begins) {
          copy_row(y, index, from, channels, at32);
        } else {
          take_row(y, index, from, channels, 1, at32, 0);
        }
      }
    }
    if constexpr (kIsWidened<T>) {
      if (!first) convert(y, wide, channels);
    }
  }
}

constexpr int64_t kPoolTask = 16384;  // the least number of elements for one task

/// Windows and the plane that they index: a row-major plane, or all channels of an NHWC sample.
struct Planes {
  Planes(const Tensor& windows, const Tensor& plane)
      : count(windows.dim(0)),
        inner(windows.dim(1)),
        windows_size(windows.dim(2) * windows.dim(3)),
        plane_size(plane.dim(2) * plane.dim(3)) {
    if (plane.is_contiguous() && windows.is_contiguous()) {
      count *= inner;
      inner = 1;
    }
    grain = std::max<int64_t>(1, kPoolTask / std::max<int64_t>(1, plane_size * inner));
  }
  int64_t count, inner, windows_size, plane_size, grain;
};

/// dx[i] = 0 + dy[i] where the window's position is `at`, else 0. As in a sum, -0 becomes 0.
template <class T>
LATHE_CLONES void choose_row(T* __restrict__ dx, const T* __restrict__ dy,
                             const int32_t* __restrict__ index, int64_t n, int32_t at) {
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (kIsWidened<T>) {
      constexpr uint16_t kMinusZero = 0x8000;
      const uint16_t bits = dy[i].bits;
      dx[i].bits = index[i] == at && bits != kMinusZero ? bits : uint16_t{0};
    } else {
      dx[i] = index[i] == at ? T(0) + dy[i] : T(0);
    }
  }
}

/// max_pool2d_scatter() in NHWC for windows that lie side by side: each element of dx is written
/// once, in the order of memory.
void spread_tiles(const Tensor& dx, const Tensor& dy, const Tensor& index, Pair kernel) {
  const int64_t rows = dx.dim(2), cols = dx.dim(3), C = dx.dim(1), P = dy.dim(2), Q = dy.dim(3);
  const int64_t covered = std::min(Q * kernel.cols, cols);
  visit_float(dx.dtype(), "max_pool2d", [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(dx.dim(0) * rows, std::max<int64_t>(1, kPoolTask / std::max<int64_t>(1, cols * C)),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t item = begin; item < end; ++item) {
                     const int64_t image = item / rows, row = item % rows, p = row / kernel.rows;
                     const int64_t filled = p < P ? covered : 0;
                     const int64_t first = (image * P + p) * Q * C;
                     const T* const from = dy.data<T>() + first;
                     const int32_t* const at = index.data<int32_t>() + first;
                     T* const to = dx.data<T>() + item * cols * C;
                     for (int64_t col = 0; col < filled; ++col) {
                       const int64_t window = col / kernel.cols * C;
                       choose_row(to + col * C, from + window, at + window, C,
                                  static_cast<int32_t>(row * cols + col));
                     }
                     std::fill_n(to + filled * C, (cols - filled) * C, T(0.0f));
                   }
                 });
  });
}

}  // namespace

void max_pool2d(const Tensor& y, const Tensor& index, const Tensor& x,
                const MaxPool2dOptions& opt) {
  if (y.numel() == 0) return;
  const PoolAxis rows{x.dim(2),        y.dim(2),     opt.kernel.rows,
                      opt.stride.rows, opt.pad.rows, opt.dilation.rows};
  const PoolAxis cols{x.dim(3),        y.dim(3),     opt.kernel.cols,
                      opt.stride.cols, opt.pad.cols, opt.dilation.cols};
  const Columns columns(cols);
  const Planes planes(y, x);
  visit_float(x.dtype(), "max_pool2d", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const int64_t inner = planes.inner, row = cols.out * inner;
    const int64_t work = row * std::min(rows.kernel * cols.kernel, kPoolTask);
    parallel_for(planes.count * rows.out, std::max<int64_t>(1, kPoolTask / work),
                 [&](int64_t begin, int64_t end) {
                   std::vector<float> wide(static_cast<size_t>(kIsWidened<T> ? 2 * inner : 0));
                   for (int64_t item = begin; item < end; ++item) {
                     const T* plane = x.data<T>() + item / rows.out * planes.plane_size * inner;
                     T* to = y.data<T>() + item * row;
                     int32_t* at = index.data<int32_t>() + item * row;
                     if (inner == 1) {
                       max_row(to, at, plane, item % rows.out, rows, columns);
                     } else {
                       max_row_nhwc(to, at, plane, inner, item % rows.out, rows, cols, wide.data());
                     }
                   }
                 });
  });
}

void max_pool2d_scatter(const Tensor& dx, const Tensor& dy, const Tensor& index,
                        const MaxPool2dOptions& opt) {
  const Planes planes(index, dx);
  if (planes.inner > 1 && opt.stride == opt.kernel && opt.pad == Pair(0) &&
      opt.dilation == Pair(1)) {
    return spread_tiles(dx, dy, index, opt.kernel);
  }
  visit_float(dx.dtype(), "max_pool2d", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using S = ComputeType<T>;
    parallel_for(planes.count, planes.grain, [&](int64_t begin, int64_t end) {
      const int64_t inner = planes.inner, size = planes.plane_size * inner;
      constexpr bool kRounds = !std::is_same_v<T, S>;
      // Windows overlap: sums are kept in S and rounded once.
      std::vector<S> buffer(static_cast<size_t>(kRounds ? size : 0));
      for (int64_t i = begin; i < end; ++i) {
        T* to = dx.data<T>() + i * size;
        S* sum;
        if constexpr (kRounds) {
          sum = buffer.data();
        } else {
          sum = to;
        }
        std::fill_n(sum, size, S(0));
        const T* from = dy.data<T>() + i * planes.windows_size * inner;
        const int32_t* at = index.data<int32_t>() + i * planes.windows_size * inner;
        for (int64_t w = 0; w < planes.windows_size; ++w, from += inner, at += inner) {
          for (int64_t c = 0; c < inner; ++c) {
            if (at[c] >= 0) sum[at[c] * inner + c] += S(from[c]);
          }
        }
        if constexpr (kRounds) {
          for (int64_t k = 0; k < size; ++k) to[k] = T(sum[k]);
        }
      }
    });
  });
}

void max_pool2d_gather(const Tensor& y, const Tensor& x, const Tensor& index) {
  const Planes planes(index, x);
  visit_float(x.dtype(), "max_pool2d", [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(planes.count, planes.grain, [&](int64_t begin, int64_t end) {
      const int64_t inner = planes.inner, size = planes.windows_size * inner;
      for (int64_t i = begin; i < end; ++i) {
        const T* from = x.data<T>() + i * planes.plane_size * inner;
        const int32_t* at = index.data<int32_t>() + i * size;
        T* to = y.data<T>() + i * size;
        for (int64_t k = 0; k < size; ++k) {
          to[k] = at[k] < 0 ? T(0.0f) : from[at[k] * inner + k % inner];
        }
      }
    });
  });
}

}  // namespace lathe::cpu
