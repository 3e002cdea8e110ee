// Divides matrix products among threads, and computes small ones. Contracts: gemm.h.
#include "lathe/ops/matmul_kernels/gemm.h"

#include <algorithm>
#include <type_traits>

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

/// The sum of a[i * a_step] * b[i * b_step], in an order that depends on the count alone.
template <class T>
T dot(int64_t count, const T* a, int64_t a_step, const T* b, int64_t b_step) {
  constexpr int64_t kLanes = 16;
  T lanes[kLanes] = {};
  const int64_t whole = count / kLanes * kLanes;
  if (a_step == 1 && b_step == 1) {
    for (int64_t i = 0; i < whole; i += kLanes) {
      for (int64_t lane = 0; lane < kLanes; ++lane) lanes[lane] += a[i + lane] * b[i + lane];
    }
  } else {
    for (int64_t i = 0; i < whole; ++i) lanes[i % kLanes] += a[i * a_step] * b[i * b_step];
  }
  for (int64_t i = whole; i < count; ++i) lanes[i - whole] += a[i * a_step] * b[i * b_step];
  T sum = 0;
  for (const T lane : lanes) sum += lane;
  return sum;
}

/// c_row (+)= a_row * b, where b's rows are dense.
template <class T>
void add_rows(T* c, int64_t c_step, const T* a, int64_t a_step, const MatrixRef<const T>& b,
              GemmMode mode) {
  if (mode == GemmMode::kWrite) {
    for (int64_t j = 0; j < b.cols; ++j) c[j * c_step] = 0;
  }
  for (int64_t k = 0; k < b.rows; ++k) {
    const T factor = a[k * a_step];
    const T* row = b.data + k * b.row_step;
    if (c_step == 1) {
      for (int64_t j = 0; j < b.cols; ++j) c[j] += factor * row[j];
    } else {
      for (int64_t j = 0; j < b.cols; ++j) c[j * c_step] += factor * row[j];
    }
  }
}

/// Eigen sums products with a vector, and tiny ones, in an order that depends on the addresses.
/// These loops do not: the same numbers give the same bits wherever they lie in memory.
template <class T>
void small_gemm(const MatrixRef<T>& c, const MatrixRef<const T>& a, const MatrixRef<const T>& b,
                GemmMode mode) {
  if (c.cols == 1 && c.rows > 1) {
    return small_gemm(c.transposed(), b.transposed(), a.transposed(), mode);
  }
  for (int64_t i = 0; i < c.rows; ++i) {
    T* c_row = c.data + i * c.row_step;
    const T* a_row = a.data + i * a.row_step;
    if (b.col_step == 1 && b.cols > 1) {
      add_rows(c_row, c.col_step, a_row, a.col_step, b, mode);
      continue;
    }
    for (int64_t j = 0; j < c.cols; ++j) {
      const T sum = dot(b.rows, a_row, a.col_step, b.data + j * b.col_step, b.row_step);
      T& out = c_row[j * c.col_step];
      out = mode == GemmMode::kAdd ? out + sum : sum;
    }
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
  if (is_small(c, a.cols)) return small_gemm(c, a, b, mode);
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
