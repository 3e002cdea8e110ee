// CPU kernel of ops/resample.h. Each output row is computed in two steps: the input rows that it
// needs are summed into one row (dense and vectorised), then that row is mapped along its columns.
// NHWC is the same with C numbers per pixel.
#include <algorithm>
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

template <class T, class S>
void resample_planes(T* y, const T* x, int64_t planes, int64_t inner, const PlaneMap& map) {
  const int64_t height = map.rows.out(), width = map.columns.out();
  const int64_t in_row = map.columns.in * inner, in_plane = map.rows.in * in_row;
  const int64_t out_row = width * inner;
  const int64_t work = std::max<int64_t>(1, in_row + out_row);
  parallel_for(planes * height, std::max<int64_t>(1, 16384 / work),
               [&](int64_t begin, int64_t end) {
                 std::vector<S> row(static_cast<size_t>(in_row)), pixel(static_cast<size_t>(inner));
                 for (int64_t item = begin; item < end; ++item) {
                   const int64_t plane = item / height, p = item % height;
                   const auto up = static_cast<size_t>(p);
                   if (map.rows.taps(p) == 0) std::fill(row.begin(), row.end(), S(0));
                   for (int64_t k = 0; k < map.rows.taps(p); ++k) {
                     const T* from = x + plane * in_plane + (map.rows.begin[up] + k) * in_row;
                     add_row(row.data(), from,
                             S(map.rows.weight[static_cast<size_t>(map.rows.offset[up] + k)]),
                             in_row, k == 0);
                   }
                   T* to = y + item * out_row;
                   for (int64_t q = 0; q < width; ++q, to += inner) {
                     const auto uq = static_cast<size_t>(q);
                     const S divisor = S(map.rows.divisor[up] * map.columns.divisor[uq]);
                     const S* from = row.data() + map.columns.begin[uq] * inner;
                     const double* weight = map.columns.weight.data() + map.columns.offset[uq];
                     const int64_t taps = map.columns.taps(q);
                     if (inner == 1) {
                       S sum = 0;
                       for (int64_t k = 0; k < taps; ++k) sum += S(weight[k]) * from[k];
                       *to = T(sum / divisor);
                       continue;
                     }
                     if (taps == 0) std::fill(pixel.begin(), pixel.end(), S(0));
                     for (int64_t k = 0; k < taps; ++k) {
                       add_row(pixel.data(), from + k * inner, S(weight[k]), inner, k == 0);
                     }
                     for (int64_t i = 0; i < inner; ++i)
                       to[i] = T(pixel[static_cast<size_t>(i)] / divisor);
                   }
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
