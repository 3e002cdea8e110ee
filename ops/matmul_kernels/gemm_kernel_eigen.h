// The code of gemm_kernel_base.cpp and gemm_kernel_avx2.cpp; see gemm_kernel.h. Each includes it
// once, after renaming `Eigen`.
#pragma once

#define EIGEN_DONT_PARALLELIZE  // our own pool divides the work
#include <Eigen/Core>

#include "lathe/ops/matmul_kernels/gemm_kernel.h"

namespace lathe::cpu {
namespace {

template <class T, int Order>
using EigenMap = Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Order>, 0,
                            Eigen::OuterStride<>>;

/// Calls f with `m` as an Eigen matrix of compile-time storage order.
template <class T, class F>
void with_order(const MatrixRef<const T>& m, F&& f) {
  if (m.col_step == 1 || m.cols == 1) {
    f(EigenMap<T, Eigen::RowMajor>(m.data, m.rows, m.cols, Eigen::OuterStride<>(m.row_step)));
  } else {
    f(EigenMap<T, Eigen::ColMajor>(m.data, m.rows, m.cols, Eigen::OuterStride<>(m.col_step)));
  }
}

template <class T>
void eigen_gemm(const MatrixRef<T>& c, const MatrixRef<const T>& a, const MatrixRef<const T>& b,
                GemmMode mode) {
  using Result = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  Eigen::Map<Result, 0, Eigen::OuterStride<>> out(c.data, c.rows, c.cols,
                                                  Eigen::OuterStride<>(c.row_step));
  with_order(a, [&](const auto& left) {
    with_order(b, [&](const auto& right) {
      if (mode == GemmMode::kAdd) {
        out.noalias() += left * right;
      } else {
        out.noalias() = left * right;
      }
    });
  });
}

}  // namespace
}  // namespace lathe::cpu
