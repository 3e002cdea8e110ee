// Matrix products of plain host memory, used by matmul and the im2col convolution. gemm.cpp:
// sharing the work among threads; gemm_few.cpp: few rows; gemm_kernel.h: Eigen's kernels per
// instruction set; gemm_dnnl.cpp or gemm_eigen.cpp: large f32 products.
#pragma once

#include <cstdint>

namespace lathe::cpu {

/// A matrix in memory: element (i, j) at data[i * row_step + j * col_step]. One of the steps is 1,
/// unless the matrix has a single row or column.
template <class T>
struct MatrixRef {
  T* data;
  int64_t rows, cols;
  int64_t row_step, col_step;

  static MatrixRef row_major(T* data, int64_t rows, int64_t cols) {
    return {data, rows, cols, cols, 1};
  }
  MatrixRef transposed() const { return {data, cols, rows, col_step, row_step}; }
  MatrixRef middle_rows(int64_t first, int64_t count) const {
    return {data + first * row_step, count, cols, row_step, col_step};
  }
};

/// What happens to the values that c holds: overwritten or added to.
enum class GemmMode : uint8_t { kWrite, kAdd };

/// c = a * b, or c += a * b, for float and double, on the calling thread alone. No size is 0; c
/// does not overlap a or b. The order of summation depends on the sizes alone.
template <class T>
void gemm_serial(const MatrixRef<T>& c, const MatrixRef<const T>& a, const MatrixRef<const T>& b,
                 GemmMode mode);

/// Like gemm_serial(), on all threads. For f32 in a build with oneDNN the order of summation may
/// depend on the number of threads.
template <class T>
void gemm(const MatrixRef<T>& c, const MatrixRef<const T>& a, const MatrixRef<const T>& b,
          GemmMode mode);

/// The most rows for gemm_few(), and the fewest columns for which it saves time in a half type.
inline constexpr int64_t kFewRows = 8, kFewColumns = 4;

/// Like gemm(), for c of at most kFewRows rows. b is read once, in its own dtype: T may be a half
/// type. The order of summation depends on the sizes and on which step of b is 1.
template <class A, class T>
void gemm_few(const MatrixRef<A>& c, const MatrixRef<const A>& a, const MatrixRef<const T>& b,
              GemmMode mode);

/// Large f32 products of row-major c on all threads (gemm_dnnl.cpp, gemm_eigen.cpp).
void fast_gemm(const MatrixRef<float>& c, const MatrixRef<const float>& a,
               const MatrixRef<const float>& b, GemmMode mode);

/// The portable form of the same: blocks of rows by gemm_serial.
template <class T>
void gemm_by_rows(const MatrixRef<T>& c, const MatrixRef<const T>& a, const MatrixRef<const T>& b,
                  GemmMode mode);

}  // namespace lathe::cpu
