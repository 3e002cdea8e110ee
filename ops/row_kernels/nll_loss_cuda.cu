// CUDA kernels of nll_loss. Contract: ops/losses/nll_loss.h.
#include <limits>

#include "lathe/core/visit.h"
#include "lathe/ops/losses/class_targets.cuh"
#include "lathe/ops/losses/nll_loss.h"
#include "lathe/ops/reduce_kernels/line_kernels.cuh"

namespace lathe::cuda {

namespace {

// One thread per target: two sectors of memory each, one where the score is and one where the
// results go. Bound by latency, because it reads only one score per row.
template <class T, class A>
__global__ void forward_kernel(A* loss, A* weight, const T* logp, DeviceTargets<A> targets,
                               int64_t rows, int64_t inner) {
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  for (int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x; i < rows; i += step) {
    A own_loss = A(0), own_weight = A(0);
    const TargetKind kind = targets.kind(i);
    if (kind == TargetKind::kCounts) {
      const int64_t c = targets.index[i];
      own_weight = targets.class_weight(c);
      own_loss =
          -own_weight * static_cast<A>(logp[(i / inner * targets.classes + c) * inner + i % inner]);
    } else if (kind == TargetKind::kBad) {
      own_loss = std::numeric_limits<A>::quiet_NaN();
    }
    loss[i] = own_loss;
    weight[i] = own_weight;
  }
}

// Writes every element of dlogp; most are 0. Threads as LineGrid says. Memory bound by the writes:
// sizeof(T) bytes per score, meant to reach 85 % of the bandwidth of a fill.
template <class T, class A>
__global__ void __launch_bounds__(kReduceBlock)
    backward_kernel(T* dlogp, const A* g, DeviceTargets<A> targets, LineGrid lines) {
  const LineThread thread(lines);
  if (!thread.active()) return;
  const int64_t row = thread.line();
  const bool counts = targets.kind(row) == TargetKind::kCounts;
  const int64_t target = counts ? targets.index[row] : -1;
  const A value = counts ? -targets.class_weight(target) * g[row] : A(0);
  thread.each(
      [&](int64_t c, int64_t at) { dlogp[at] = static_cast<T>(c == target ? value : A(0)); });
}

}  // namespace

void nll_loss_forward(const Tensor& loss, const Tensor& weight, const Tensor& logp,
                      const ClassTargets& targets) {
  if (targets.rows() == 0) return;
  visit_float(logp.dtype(), "nll_loss", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = ComputeType<T>;
    const auto [grid, block] = launch_1d(targets.rows());
    launch(forward_kernel<T, A>, grid, block, 0, current_stream(logp.device()), loss.data<A>(),
           weight.data<A>(), logp.data<T>(), DeviceTargets<A>(targets), targets.rows(),
           targets.inner);
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
}

void nll_loss_backward(const Tensor& dlogp, const Tensor& g, const ClassTargets& targets) {
  if (dlogp.numel() == 0) return;
  visit_float(dlogp.dtype(), "nll_loss", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = ComputeType<T>;
    const LineGrid lines(targets.rows(), targets.classes, targets.inner);
    launch(backward_kernel<T, A>, lines.grid(), dim3(kReduceBlock), 0,
           current_stream(dlogp.device()), dlogp.data<T>(), g.data<A>(), DeviceTargets<A>(targets),
           lines);
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
}

}  // namespace lathe::cuda
