// CPU kernel of ops/resample.h. Each output row is computed in two steps: the input rows that it
// needs are summed into one row (dense and vectorised), then that row is mapped along its columns.
// NHWC is the same with C numbers per pixel.
#include <algorithm>
#include <type_traits>
#include <vector>

#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/ops/resample.h"

namespace lathe::cpu {

namespace {

/// sum[i] (+)= weight * x[i].
template <class T, class S>
void add_row(S* sum, const T* x, S weight, int64_t n, bool first) {
  if (first) {
    for (int64_t i = 0; i < n; ++i) sum[i] = weight * S(x[i]);
  } else {
    for (int64_t i = 0; i < n; ++i) sum[i] += weight * S(x[i]);
  }
}

/// An AxisMap in the type of the sums.
template <class S>
struct Taps {
  explicit Taps(const AxisMap& map)
      : axis(map), weight(map.weight.begin(), map.weight.end()), copies(true) {
    for (const double w : map.weight) copies = copies && w == 1.0;
    const bool divides =
        std::any_of(map.divisor.begin(), map.divisor.end(), [](double d) { return d != 1.0; });
    copies = copies && !divides;
    for (int64_t i = 0; i < map.out(); ++i) copies = copies && map.taps(i) == 1;
    while (!divides && pairs < map.out() && map.taps(pairs) == 2) ++pairs;
  }
  const S* weights_of(size_t i) const { return weight.data() + axis.offset[i]; }

  const AxisMap& axis;
  std::vector<S> weight;
  bool copies;        // each output is a copy of one input
  int64_t pairs = 0;  // so many outputs, from the first one on, are sums of two taps each
};

/// Outputs of two taps each, from their own first taps and weights on.
template <class T, class S>
LATHE_CLONES void mix_pairs(T* __restrict__ to, const S* __restrict__ from, const int64_t* begin,
                            const S* __restrict__ weight, int64_t n) {
  for (int64_t q = 0; q < n; ++q) {
    const S* x = from + begin[q];
    to[q] = T(S(0) + weight[2 * q] * x[0] + weight[2 * q + 1] * x[1]);
  }
}

/// One row of outputs, from the row of sums `from`.
template <class T, class S>
void map_row(T* to, const S* from, const Taps<S>& columns, double row_divisor, int64_t inner) {
  const AxisMap& axis = columns.axis;
  const auto width = static_cast<size_t>(axis.out());
  if (columns.copies && row_divisor == 1.0) {
    for (size_t q = 0; q < width; ++q, to += inner) {
      const S* pixel = from + axis.begin[q] * inner;
      if (inner == 1) {
        *to = T(*pixel);
      } else {
        for (int64_t i = 0; i < inner; ++i) to[i] = T(pixel[i]);
      }
    }
    return;
  }
  size_t first_of_rest = 0;
  if (inner == 1 && row_divisor == 1.0) {
    mix_pairs(to, from, axis.begin.data(), columns.weight.data(), columns.pairs);
    first_of_rest = static_cast<size_t>(columns.pairs);
    to += columns.pairs;
  }
  std::vector<S> pixel(static_cast<size_t>(inner));
  for (size_t q = first_of_rest; q < width; ++q, to += inner) {
    const S divisor = S(row_divisor * axis.divisor[q]);
    const S *first = from + axis.begin[q] * inner, *weight = columns.weights_of(q);
    const int64_t taps = axis.taps(static_cast<int64_t>(q));
    if (inner == 1) {
      S sum = 0;
      for (int64_t k = 0; k < taps; ++k) sum += weight[k] * first[k];
      *to = T(divisor == S(1) ? sum : sum / divisor);
      continue;
    }
    if (taps == 0) std::fill(pixel.begin(), pixel.end(), S(0));
    for (int64_t k = 0; k < taps; ++k) {
      add_row(pixel.data(), first + k * inner, weight[k], inner, k == 0);
    }
    for (int64_t i = 0; i < inner; ++i) to[i] = T(pixel[static_cast<size_t>(i)] / divisor);
  }
}

template <class T, class S>
void resample_planes(T* y, const T* x, int64_t planes, int64_t inner, const PlaneMap& map) {
  const Taps<S> rows(map.rows), columns(map.columns);
  const int64_t height = map.rows.out();
  const int64_t in_row = map.columns.in * inner, in_plane = map.rows.in * in_row;
  const int64_t out_row = map.columns.out() * inner;
  const int64_t work = std::max<int64_t>(1, in_row + out_row);
  parallel_for(
      planes * height, std::max<int64_t>(1, 16384 / work), [&](int64_t begin, int64_t end) {
        std::vector<S> sums(static_cast<size_t>(in_row));
        for (int64_t item = begin; item < end; ++item) {
          const int64_t plane = item / height, p = item % height;
          const auto up = static_cast<size_t>(p);
          T* const to = y + item * out_row;
          const auto& first = map.rows.begin;
          if (rows.copies && p > 0 && item > begin && first[up] == first[up - 1]) {
            std::copy_n(to - out_row, out_row, to);  // the row above, again
            continue;
          }
          const T* from = x + plane * in_plane + first[up] * in_row;
          const S* row = sums.data();
          if constexpr (std::is_same_v<T, S>) {
            if (rows.copies) row = from;
          }
          if (row == sums.data()) {
            const int64_t taps = map.rows.taps(p);
            if (taps == 0) std::fill(sums.begin(), sums.end(), S(0));
            for (int64_t k = 0; k < taps; ++k) {
              add_row(sums.data(), from + k * in_row, rows.weights_of(up)[k], in_row, k == 0);
            }
          }
          map_row(to, row, columns, map.rows.divisor[up], inner);
        }
      });
}

}  // namespace

void resample(const Tensor& y, const Tensor& x, const PlaneMap& map) {
  if (y.numel() == 0) return;
  const bool nhwc = !x.is_contiguous();
  visit_float(x.dtype(), "resample", [&](auto tag) {
    using T = typename decltype(tag)::type;
    resample_planes<T, ComputeType<T>>(
        y.data<T>(), x.data<T>(), nhwc ? x.dim(0) : x.dim(0) * x.dim(1), nhwc ? x.dim(1) : 1, map);
  });
}

}  // namespace lathe::cpu
