// Matrix products whose left side has few rows. Contract: gemm.h; loops: few_rows.h.
#include <algorithm>
#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/half.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/matmul_kernels/few_rows.h"
#include "lathe/ops/matmul_kernels/gemm.h"

namespace lathe::cpu {

namespace {

using few_rows::Rows;

// Columns of c at a time where b's columns are dense.
constexpr int64_t kColumns = 64;
// Columns of c and rows of b at a time where b's rows are dense. Pieces of rows should be long,
// because memory is read ahead, but every thread should get some.
constexpr int64_t kLongColumns = 512, kTerms = 4, kPieces = 8;

/// Columns [first, last) of c, where b's columns are dense.
template <class A, class T>
void multiply_columns(const MatrixRef<A>& c, const MatrixRef<const A>& a,
                      const MatrixRef<const T>& b, GemmMode mode, int64_t first, int64_t last) {
  A sums[kFewRows * kColumns];
  for (int64_t j = first; j < last; j += kColumns) {
    const int64_t n = std::min(kColumns, last - j);
    few_rows::multiply_rows<A, T>({sums, n}, {a.data, a.row_step},
                                  {b.data + j * b.col_step, b.col_step}, c.rows, n, a.cols);
    for (int64_t r = 0; r < c.rows; ++r) {
      A* const out = c.data + r * c.row_step + j;
      for (int64_t i = 0; i < n; ++i) {
        out[i] = mode == GemmMode::kAdd ? out[i] + sums[r * n + i] : sums[r * n + i];
      }
    }
  }
}

/// The same, where b's rows are dense.
template <class A, class T>
void add_rows(const MatrixRef<A>& c, const MatrixRef<const A>& a, const MatrixRef<const T>& b,
              GemmMode mode, int64_t first, int64_t last) {
  if (mode == GemmMode::kWrite) {
    for (int64_t r = 0; r < c.rows; ++r) {
      std::fill_n(c.data + r * c.row_step + first, last - first, A(0));
    }
  }
  for (int64_t k = 0; k < b.rows; k += kTerms) {
    few_rows::add_rows<A, T>({c.data + first, c.row_step}, {a.data + k, a.row_step},
                             {b.data + k * b.row_step + first, b.row_step}, c.rows,
                             std::min(kTerms, b.rows - k), last - first);
  }
}

/// m, copied to `room` unless its rows are dense.
template <class T>
MatrixRef<const T> with_dense_rows(const MatrixRef<const T>& m, std::vector<T>& room) {
  if (m.col_step == 1 || m.cols == 1) return m;
  for (int64_t i = 0; i < m.rows; ++i) {
    for (int64_t j = 0; j < m.cols; ++j) {
      room.push_back(m.data[i * m.row_step + j * m.col_step]);
    }
  }
  return MatrixRef<const T>::row_major(room.data(), m.rows, m.cols);
}

}  // namespace

template <class A, class T>
void gemm_few(const MatrixRef<A>& c, const MatrixRef<const A>& a, const MatrixRef<const T>& b,
              GemmMode mode) {
  if (c.col_step != 1 && c.cols > 1) {
    std::vector<A> room(static_cast<size_t>(c.rows * c.cols));
    const auto dense = MatrixRef<A>::row_major(room.data(), c.rows, c.cols);
    gemm_few(dense, a, b, GemmMode::kWrite);
    for (int64_t i = 0; i < c.rows; ++i) {
      for (int64_t j = 0; j < c.cols; ++j) {
        A& out = c.data[i * c.row_step + j * c.col_step];
        const A sum = dense.data[i * c.cols + j];
        out = mode == GemmMode::kAdd ? out + sum : sum;
      }
    }
    return;
  }
  std::vector<A> left_room;
  std::vector<T> right_room;
  const auto left = with_dense_rows(a, left_room);
  const bool by_rows = b.col_step == 1 && b.cols > 1;
  const auto right = by_rows ? b : with_dense_rows(b.transposed(), right_room).transposed();
  constexpr int64_t kTaskWork = 1 << 16;  // multiplications worth another thread
  const int64_t long_columns = ceil_div(ceil_div(c.cols, kPieces), kColumns) * kColumns;
  const int64_t unit = by_rows ? std::min(kLongColumns, long_columns) : kColumns;
  const int64_t grain = ceil_div(ceil_div(kTaskWork, c.rows * a.cols), unit) * unit;
  parallel_for(c.cols, grain, [&](int64_t first, int64_t last) {
    if (by_rows) {
      add_rows(c, left, right, mode, first, last);
    } else {
      multiply_columns(c, left, right, mode, first, last);
    }
  });
}

using FloatRef = MatrixRef<float>;
using FloatInput = MatrixRef<const float>;
template void gemm_few(const FloatRef&, const FloatInput&, const FloatInput&, GemmMode);
template void gemm_few(const FloatRef&, const FloatInput&, const MatrixRef<const Half>&, GemmMode);
template void gemm_few(const FloatRef&, const FloatInput&, const MatrixRef<const BFloat16>&,
                       GemmMode);
template void gemm_few(const MatrixRef<double>&, const MatrixRef<const double>&,
                       const MatrixRef<const double>&, GemmMode);

}  // namespace lathe::cpu
