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

using cpu::kDistanceBand, cpu::kDistanceTile;
constexpr int64_t kTask = 1 << 17;            // the least number of differences for one thread
constexpr int64_t kRootWork = 8;              // differences that take as long as a root
constexpr int64_t kRows = 8 * kDistanceTile;  // of x1, that one task takes
constexpr int64_t kNumbers = 1 << 17;         // of x2, at most, that stay in the second-level cache
constexpr int64_t kLeastProduct = 16;         // numbers in a row for which a product saves time
constexpr int kMostNear = 8;  // rows of a band whose distances are computed one by one
constexpr int64_t kPiece =
    8 * kDistanceBand;  // columns of y whose products are computed before the roots

/// A number of each row of a band, where vectors begin with a line of the cache.
template <class T>
struct alignas(64) BandLine {
  T numbers[kDistanceBand];
};

/// y[c] = the squared distance of the row `a` of d numbers from column c of `band`
/// [d, kDistanceBand].
template <class T>
LATHE_CLONES void squares_to_band(T* __restrict__ y, const T* __restrict__ a,
                                  const T* __restrict__ band, int64_t d) {
  T sums[kDistanceBand] = {};
  for (int64_t k = 0; k < d; ++k) {
    const T value = a[k];
    const T* column = band + k * kDistanceBand;
    for (int64_t c = 0; c < kDistanceBand; ++c) {
      const T apart = value - column[c];
      sums[c] += apart * apart;
    }
  }
  for (int64_t c = 0; c < kDistanceBand; ++c) y[c] = sums[c];
}

#if defined(__x86_64__)
/// The squared distances of a tile of rows from a piece of `width` rows, whose bands are also
/// given, by a product. Those that it makes inaccurate are computed again. Returns how many.
int64_t squares_of_piece(float* squares, const float* tile, const float* bands, const float* rows,
                         int64_t width, int64_t d) {
  float tile_norms[kDistanceTile];
  for (int64_t i = 0; i < kDistanceTile; ++i)
    tile_norms[i] = cpu::square_norm_avx512(tile + i * d, d);
  int64_t again = 0;
  for (int64_t first = 0; first < width; first += kDistanceBand) {
    const int64_t inside = std::min(kDistanceBand, width - first);
    const float* const band = bands + first * (d + 1);
    uint64_t near[kDistanceTile];
    cpu::squares_by_product_avx512(squares + first, kPiece, near, tile, tile_norms, band,
                                   band + d * kDistanceBand, d);
    for (int64_t i = 0; i < kDistanceTile; ++i) {
      const float* const a = tile + i * d;
      float* const found = squares + i * kPiece + first;
      near[i] &= ~uint64_t{0} >> (kDistanceBand - inside);
      const int count = std::popcount(near[i]);
      float exact[kDistanceBand];
      if (count > kMostNear) squares_to_band(exact, a, band, d);
      for (uint64_t rest = near[i]; rest != 0; rest &= rest - 1) {
        const int c = std::countr_zero(rest);
        found[c] =
            count > kMostNear ? exact[c] : cpu::square_apart_avx512(a, rows + (first + c) * d, d);
      }
      again += count;
    }
  }
  return again;
}
#endif

/// The bands of x2 [batch,r,d], each a line for every number of its rows and one for their squared
/// norms.
template <class T>
std::vector<BandLine<T>> bands_of(const T* x2, int64_t batch, int64_t r, int64_t d) {
  const int64_t bands = ceil_div(r, kDistanceBand);
  std::vector<BandLine<T>> lines(static_cast<size_t>(batch * bands * (d + 1)));
  const int64_t grain = std::max<int64_t>(1, kTask / 8 / std::max<int64_t>(1, kDistanceBand * d));
  parallel_for(batch * bands, grain, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b % bands * kDistanceBand, width = std::min(kDistanceBand, r - first);
      const T* const rows = x2 + (b / bands * r + first) * d;
      BandLine<T>* const band = lines.data() + b * (d + 1);
      for (int64_t c = 0; c < width; ++c) {
        for (int64_t k = 0; k < d; ++k) band[k].numbers[c] = rows[c * d + k];
      }
      for (int64_t k = 0; k < d; ++k) {
        for (int64_t c = 0; c < kDistanceBand; ++c) {
          band[d].numbers[c] += band[k].numbers[c] * band[k].numbers[c];
        }
      }
    }
  });
  return lines;
}

/// The distances of rows of x1 from bands of x2.
template <class T>
struct Distances {
  T* y;
  const T *x1, *x2;
  int64_t r, d;
  bool multiplies;
  RowKernel root = cpu::unary_kernel(UnaryOp::kSqrt, dtype_of<T>, {});  // vector code

  void take_roots(T* to, const T* squares, int64_t n) const {
    constexpr int64_t step[] = {sizeof(T), sizeof(T)};
    char* const data[] = {reinterpret_cast<char*>(to),
                          reinterpret_cast<char*>(const_cast<T*>(squares))};
    root(StridedRow{data, step, n});
  }

  /// y[row,column] for the rows and columns given, of the pair of matrices that begin at x1 and x2;
  /// `bands` are those of x2.
  void compute(const T* bands, int64_t first_row, int64_t last_row, int64_t first_column,
               int64_t last_column) const {
    alignas(64) T squares[kDistanceTile * kPiece];
    [[maybe_unused]] int64_t tried = 0, again = 0;  // by a product
    for (int64_t row = first_row; row < last_row; row += kDistanceTile) {
      const int64_t count = std::min(kDistanceTile, last_row - row);
      const T* const a = x1 + row * d;
      for (int64_t first = first_column; first < last_column; first += kPiece) {
        const int64_t width = std::min(kPiece, last_column - first);
        T* const to = y + row * r + first;
#if defined(__x86_64__)
        if constexpr (std::is_same_v<T, float>) {
          if (multiplies && count == kDistanceTile && 4 * again <= tried) {
            tried += kDistanceTile * width;
            again +=
                squares_of_piece(squares, a, bands + first * (d + 1), x2 + first * d, width, d);
            for (int64_t i = 0; i < count; ++i) {
              take_roots(to + i * r, squares + i * kPiece, width);
            }
            continue;
          }
        }
#endif
        for (int64_t c = 0; c < width; c += kDistanceBand) {
          for (int64_t i = 0; i < count; ++i) {
            squares_to_band(squares, a + i * d, bands + (first + c) * (d + 1), d);
            take_roots(to + i * r + c, squares, std::min(kDistanceBand, width - c));
          }
        }
      }
    }
  }
};

template <class T>
void run(T* y, const T* x1, const T* x2, int64_t batch, int64_t p, int64_t r, int64_t d) {
  const std::vector<BandLine<T>> lines = bands_of(x2, batch, r, d);
  const bool multiplies = std::is_same_v<T, float> && d >= kLeastProduct && p >= kDistanceTile &&
                          r >= kDistanceBand && has_avx512();
  const int64_t fits =
      std::max<int64_t>(1, kNumbers / std::max<int64_t>(1, d * kDistanceBand)) * kDistanceBand;
  const int64_t bands = ceil_div(r, kDistanceBand), columns = std::min(fits, bands * kDistanceBand);
  const int64_t groups = ceil_div(r, columns), blocks = ceil_div(p, kRows);
  const int64_t work = std::min(p, kRows) * columns * (d + kRootWork);
  const int64_t grain = std::max<int64_t>(1, kTask / work);
  parallel_for(batch * groups * blocks, grain, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t n = item / (groups * blocks), row = item % blocks * kRows;
      const int64_t column = item / blocks % groups * columns;
      const Distances<T> pair{y + n * p * r, x1 + n * p * d, x2 + n * r * d, r, d, multiplies};
      pair.compute(reinterpret_cast<const T*>(lines.data() + n * bands * (d + 1)), row,
                   std::min(p, row + kRows), column, std::min(r, column + columns));
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
