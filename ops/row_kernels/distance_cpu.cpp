// CPU kernel of cdist for p = 2: a band of rows of x2, transposed, stays in the cache, and the
// distances of a row of x1 from all of them are computed side by side. Contract: distance.h.
#include <algorithm>
#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/ops/distance.h"
#include "lathe/ops/row_kernels.h"

namespace lathe {

namespace {

constexpr int64_t kBand = 64;       // rows of x2 in a band
constexpr int64_t kTask = 1 << 16;  // the least number of differences for one thread

/// y[c] = the distance of the row `a` of d numbers from column c of `band` [d, kBand].
template <class T>
LATHE_CLONES void distances_to_band(T* __restrict__ y, const T* __restrict__ a,
                                    const T* __restrict__ band, int64_t d) {
  T sums[kBand] = {};
  for (int64_t k = 0; k < d; ++k) {
    const T value = a[k];
    const T* column = band + k * kBand;
    for (int64_t c = 0; c < kBand; ++c) {
      const T apart = value - column[c];
      sums[c] += apart * apart;
    }
  }
  for (int64_t c = 0; c < kBand; ++c) y[c] = sums[c];
}

template <class T>
void run(T* y, const T* x1, const T* x2, int64_t batch, int64_t p, int64_t r, int64_t d) {
  const int64_t bands = ceil_div(r, kBand);
  const int64_t grain = std::max<int64_t>(1, kTask / std::max<int64_t>(1, p * kBand * d));
  const RowKernel root = cpu::unary_kernel(UnaryOp::kSqrt, dtype_of<T>, {});  // vector code
  constexpr int64_t step[] = {sizeof(T), sizeof(T)};
  parallel_for(batch * bands, grain, [&](int64_t begin, int64_t end) {
    std::vector<T> band(static_cast<size_t>(d * kBand), T(0));
    T squares[kBand];
    for (int64_t item = begin; item < end; ++item) {
      const int64_t n = item / bands, first = item % bands * kBand;
      const int64_t width = std::min(kBand, r - first);
      const T* rows = x2 + (n * r + first) * d;
      for (int64_t c = 0; c < width; ++c) {
        for (int64_t k = 0; k < d; ++k) band[static_cast<size_t>(k * kBand + c)] = rows[c * d + k];
      }
      for (int64_t i = 0; i < p; ++i) {
        distances_to_band(squares, x1 + (n * p + i) * d, band.data(), d);
        T* to = y + (n * p + i) * r + first;
        char* const data[] = {reinterpret_cast<char*>(to), reinterpret_cast<char*>(squares)};
        root(StridedRow{data, step, width});
      }
    }
  });
}

}  // namespace

void cpu::euclidean_distances(const Tensor& y, const Tensor& x1, const Tensor& x2) {
  if (y.numel() == 0) return;
  const int64_t p = y.dim(-2), r = y.dim(-1), batch = y.numel() / (p * r), d = x1.dim(-1);
  if (y.dtype() == kF64) {
    run(y.data<double>(), x1.data<double>(), x2.data<double>(), batch, p, r, d);
  } else {
    run(y.data<float>(), x1.data<float>(), x2.data<float>(), batch, p, r, d);
  }
}

}  // namespace lathe
