// What the CPU's kernels of lstm and gru are made of (recurrent.h). The threads share out the
// sequences of a batch. Each runs all steps of its sequences, so no thread waits for another one
// between two steps, and the weights stay in its cache.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "lathe/core/ceil_div.h"
#include "lathe/core/compute_alone.h"
#include "lathe/core/tensor.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/ops/matmul_kernels/gemm.h"

namespace lathe::cpu {

/// Calls rows(first, count) for groups of the N sequences, on all threads. The groups do not depend
/// on the number of threads.
template <class F>
void share_out_sequences(int64_t N, F&& rows) {
  // Products of eight rows are nearly as fast as larger ones, since the weights are in the cache.
  constexpr int64_t kRows = 8, kMostGroups = 16;
  const int64_t grain = std::max(kRows, ceil_div(ceil_div(N, kMostGroups), kRows) * kRows);
  if (N <= grain) return rows(int64_t{0}, N);  // its products may use all threads
  parallel_for(N, grain, [&](int64_t begin, int64_t end) {
    const ComputeAlone alone;
    rows(begin, end - begin);
  });
}

/// w_h [G*H,H] as the factor [H,G*H] of a step. For many steps it is a copy in that order, with
/// which products of few rows take half the time.
inline Tensor step_weights(const Tensor& w_h, int64_t steps) {
  constexpr int64_t kWorthACopy = 4;
  const Tensor turned = w_h.t();
  return steps < kWorthACopy ? turned : turned.contiguous();
}

template <class A>
MatrixRef<A> matrix_of(const Tensor& t) {
  return {t.data<std::remove_const_t<A>>(), t.dim(0), t.dim(1), t.stride(0), t.stride(1)};
}

template <class F>
void visit_wide_dtype(DType dtype, F&& f) {
  if (dtype == kF64) return f(TypeTag<double>{});
  f(TypeTag<float>{});
}

}  // namespace lathe::cpu
