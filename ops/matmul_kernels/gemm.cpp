// Divides matrix products among threads, and computes small ones. Contracts: gemm.h.
#include "lathe/ops/matmul_kernels/gemm.h"

#include <algorithm>
#include <type_traits>

#include "lathe/core/compute_alone.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/matmul_kernels/gemm_kernel.h"

namespace lathe::cpu {

namespace {

const GemmKernels& kernels() {
  static const GemmKernels best = best_gemm_kernels();
  return best;
}

template <class T>
bool is_row_major(const MatrixRef<T>& m) {
  return m.col_step == 1 || m.cols == 1;
}

/// Eigen sums products with a vector, and tiny ones, in an order that depends on the addresses.
/// These loops do not: the same numbers give the same bits wherever they lie in memory.
template <class T>
void small_gemm(const MatrixRef<T>& c, const MatrixRef<const T>& a, const MatrixRef<const T>& b,
                GemmMode mode) {
  if (c.cols == 1) return gemm_few(c.transposed(), b.transposed(), a.transposed(), mode);
  for (int64_t i = 0; i < c.rows; i += kFewRows) {
    const int64_t rows = std::min(kFewRows, c.rows - i);
    gemm_few(c.middle_rows(i, rows), a.middle_rows(i, rows), b, mode);
  }
}

/// True for products that Eigen would compute by its matrix-vector or coefficient-wise loops.
template <class T>
bool is_small(const MatrixRef<T>& c, int64_t terms) {
  constexpr int64_t kEigenThreshold = 20;
  return c.rows == 1 || c.cols == 1 || c.rows + c.cols + terms < kEigenThreshold;
}

// Products with fewer multiplications than this take less time than it takes to wake a thread.
constexpr int64_t kSerialWork = 1 << 17;

}  // namespace

template <class T>
void gemm_serial(const MatrixRef<T>& c, const MatrixRef<const T>& a, const MatrixRef<const T>& b,
                 GemmMode mode) {
  if (is_small(c, a.cols)) {
    const ComputeAlone alone;
    return small_gemm(c, a, b, mode);
  }
  if (!is_row_major(c)) return gemm_serial(c.transposed(), b.transposed(), a.transposed(), mode);
  if constexpr (std::is_same_v<T, float>) {
    kernels().f32(c, a, b, mode);
  } else {
    kernels().f64(c, a, b, mode);
  }
}

template <class T>
void gemm_by_rows(const MatrixRef<T>& c, const MatrixRef<const T>& a, const MatrixRef<const T>& b,
                  GemmMode mode) {
  // At most 8 blocks, each of a multiple of 16 rows, because Eigen packs b again for each block.
  const int64_t block = std::max<int64_t>(48, (c.rows + 127) / 128 * 16);
  parallel_for(c.rows, block, [&](int64_t first, int64_t last) {
    gemm_serial(c.middle_rows(first, last - first), a.middle_rows(first, last - first), b, mode);
  });
}

template <class T>
void gemm(const MatrixRef<T>& c, const MatrixRef<const T>& a, const MatrixRef<const T>& b,
          GemmMode mode) {
  if (c.rows == 1 || c.cols == 1) return small_gemm(c, a, b, mode);
  if (!is_row_major(c)) return gemm(c.transposed(), b.transposed(), a.transposed(), mode);
  if (c.rows * c.cols * a.cols < kSerialWork) return gemm_serial(c, a, b, mode);
  if constexpr (std::is_same_v<T, float>) {
    fast_gemm(c, a, b, mode);
  } else {
    gemm_by_rows(c, a, b, mode);
  }
}

using FloatRef = MatrixRef<float>;
using FloatInput = MatrixRef<const float>;
template void gemm_serial(const FloatRef&, const FloatInput&, const FloatInput&, GemmMode);
template void gemm_by_rows(const FloatRef&, const FloatInput&, const FloatInput&, GemmMode);
template void gemm(const FloatRef&, const FloatInput&, const FloatInput&, GemmMode);

using DoubleRef = MatrixRef<double>;
using DoubleInput = MatrixRef<const double>;
template void gemm_serial(const DoubleRef&, const DoubleInput&, const DoubleInput&, GemmMode);
template void gemm_by_rows(const DoubleRef&, const DoubleInput&, const DoubleInput&, GemmMode);
template void gemm(const DoubleRef&, const DoubleInput&, const DoubleInput&, GemmMode);

}  // namespace lathe::cpu
