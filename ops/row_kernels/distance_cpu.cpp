// CPU kernel of cdist for p = 2: bands of rows of x2, transposed, stay in the cache, and the
// distances of a row of x1 from all rows of a band are computed side by side. In f32 with AVX-512
// squares come from a product as long as that keeps their digits (distance_avx512.h). Contract:
// distance.h.
#include <algorithm>
#include <bit>
#include <type_traits>
#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/core/x86_levels.h"
#include "lathe/ops/distance.h"
#include "lathe/ops/row_kernels.h"
#include "lathe/ops/row_kernels/distance_avx512.h"

namespace lathe {

namespace {

using cpu::kBand, cpu::kTile;
constexpr int64_t kTask = 1 << 16;     // the least number of differences for one thread
constexpr int64_t kLeastProduct = 16;  // numbers in a row for which a product saves time
constexpr int64_t kGroup = 8;          // the most bands that are at hand together, and the most
constexpr int64_t kNumbers = 1 << 15;  // numbers in them: half of a second-level cache
constexpr int64_t kRows = 1020;        // of x1, that one task takes; a multiple of kTile

/// A number of each row of a band, where vectors begin with a line of the cache.
template <class T>
struct alignas(64) Line {
  T numbers[kBand];
};

/// y[c] = the squared distance of the row `a` of d numbers from column c of `band` [d, kBand].
template <class T>
LATHE_CLONES void squares_to_band(T* __restrict__ y, const T* __restrict__ a,
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

#if defined(__x86_64__)
/// The squared distances of a tile of rows from a band, whose `width` rows are also given, by a
/// product. Those that it makes inaccurate are computed again. Returns how many these are.
int64_t squares_of_tile(float* squares, int64_t stride, const float* a, const float* a_norms,
                        const float* band, const float* band_norms, const float* rows,
                        int64_t width, int64_t d) {
  uint64_t near[kTile];
  cpu::squares_by_product_avx512(squares, stride, near, a, a_norms, band, band_norms, d);
  const uint64_t inside = ~uint64_t{0} >> (kBand - width);
  int64_t again = 0;
  for (int64_t i = 0; i < kTile; ++i, a += d, squares += stride) {
    near[i] &= inside;
    again += std::popcount(near[i]);
    for (uint64_t rest = near[i]; rest != 0; rest &= rest - 1) {
      const int c = std::countr_zero(rest);
      squares[c] = cpu::square_apart_avx512(a, rows + c * d, d);
    }
  }
  return again;
}

void norms_of(float* norms, const float* x, int64_t rows, int64_t d) {
  for (int64_t i = 0; i < rows; ++i) norms[i] = cpu::square_norm_avx512(x + i * d, d);
}
#endif

template <class T>
void run(T* y, const T* x1, const T* x2, int64_t batch, int64_t p, int64_t r, int64_t d) {
  const RowKernel root = cpu::unary_kernel(UnaryOp::kSqrt, dtype_of<T>, {});  // vector code
  constexpr int64_t step[] = {sizeof(T), sizeof(T)};
  const int64_t fits = kNumbers / std::max<int64_t>(1, d * kBand);
  const int64_t columns =
      std::min(ceil_div(r, kBand), std::clamp<int64_t>(fits, 1, kGroup)) * kBand;
  const int64_t groups = ceil_div(r, columns), parts = ceil_div(p, kRows);
  const int64_t work = std::min(p, kRows) * columns * d;
  const int64_t grain = std::max<int64_t>(1, kTask / std::max<int64_t>(1, work));
  [[maybe_unused]] const bool multiplies =
      std::is_same_v<T, float> && d >= kLeastProduct && p >= kTile && r >= kBand && has_avx512();
  parallel_for(batch * groups * parts, grain, [&](int64_t begin, int64_t end) {
    std::vector<Line<T>> lines(static_cast<size_t>(d * columns / kBand));
    T* const bands = reinterpret_cast<T*>(lines.data());
    alignas(64) T squares[kTile * kGroup * kBand];
    for (int64_t item = begin; item < end; ++item) {
      const int64_t n = item / (groups * parts), first_row = item % parts * kRows;
      const int64_t last_row = std::min(p, first_row + kRows);
      const int64_t first = item / parts % groups * columns, width = std::min(columns, r - first);
      const T* const rows = x2 + (n * r + first) * d;
      if (width < columns) std::fill_n(bands, d * columns, T(0));
      for (int64_t c = 0; c < width; ++c) {
        T* const column = bands + c / kBand * kBand * d + c % kBand;
        for (int64_t k = 0; k < d; ++k) column[k * kBand] = rows[c * d + k];
      }
#if defined(__x86_64__)
      float norms[kGroup * kBand], tile_norms[kTile];
      if constexpr (std::is_same_v<T, float>) {
        if (multiplies) norms_of(norms, rows, width, d);
      }
      std::fill(norms + width, std::end(norms), 0.0f);
      int64_t again = 0;  // if these are many, the rest does without a product
#endif
      for (int64_t row = first_row; row < last_row; row += kTile) {
        const int64_t count = std::min(kTile, last_row - row);
        const T* const a = x1 + (n * p + row) * d;
        bool are_known = false;
#if defined(__x86_64__)
        if constexpr (std::is_same_v<T, float>) {
          if (multiplies && count == kTile && again <= (row - first_row + kTile) * width / 4) {
            norms_of(tile_norms, a, kTile, d);
            for (int64_t c = 0; c < width; c += kBand) {
              again += squares_of_tile(squares + c, columns, a, tile_norms, bands + c * d,
                                       norms + c, rows + c * d, std::min(kBand, width - c), d);
            }
            are_known = true;
          }
        }
#endif
        for (int64_t i = 0; i < count; ++i) {
          T* const from = squares + i * columns;
          for (int64_t c = 0; c < width && !are_known; c += kBand) {
            squares_to_band(from + c, a + i * d, bands + c * d, d);
          }
          T* const to = y + (n * p + row + i) * r + first;
          char* const data[] = {reinterpret_cast<char*>(to), reinterpret_cast<char*>(from)};
          root(StridedRow{data, step, width});
        }
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
