// CUDA kernels of cross-entropy, with the arithmetic of cross_entropy_math.h and the sums of
// exponentials of reduce_device.cuh. Contract: ops/losses/cross_entropy.h.
#include <limits>

#include "lathe/core/gpu/dependent_launch.cuh"
#include "lathe/core/visit.h"
#include "lathe/ops/losses/class_targets.cuh"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/ops/reduce_kernels/line_kernels.cuh"
#include "lathe/ops/reduce_kernels/reduce_device.cuh"
#include "lathe/ops/row_kernels/cross_entropy_math.h"

namespace lathe::cuda {

namespace {

/// Results per row, in the dtype of the losses.
template <class A>
struct DeviceRows {
  A *loss, *weight, *largest, *log_sum;

  explicit DeviceRows(const CrossEntropyRows& rows)
      : loss(rows.loss.defined() ? rows.loss.data<A>() : nullptr),
        weight(rows.weight.data<A>()),
        largest(rows.largest.data<A>()),
        log_sum(rows.log_sum.data<A>()) {}
};

/// The source of w_c, for class c.
template <class A>
struct ClassWeights {
  DeviceTargets<A> targets;
  __device__ A operator[](int64_t c) const { return targets.class_weight(c); }
};

/// The source of w_c * -logp of class c.
template <class T, class A>
struct EvenTerms {
  DeviceTargets<A> targets;
  const T* x;  // the row's first score
  int64_t step;
  A largest, log_sum;
  __device__ A operator[](int64_t c) const {
    return targets.class_weight(c) * (log_sum - (static_cast<A>(x[c * step]) - largest));
  }
};

template <class A>
using SumMath = SimpleMath<reduce_math::Sum<A>>;

// One row per line of threads (LineGrid): the sum of exponentials; with label smoothing a second
// pass over the row, which is in the cache. Memory bound: sizeof(T) bytes per score, meant to reach
// 80 % of the read bandwidth from some MiB on; for a batch of 512 rows of 10 the launch dominates.
template <class T, class A>
__global__ void __launch_bounds__(kReduceBlock, 2)
    forward_kernel(DeviceRows<A> rows, const T* x, DeviceTargets<A> targets,
                   math::Smoothing<A> smoothing, LineGrid lines) {
  after_previous_kernel();
  const LineThread thread(lines);
  const auto sum = thread.template reduce<LogSumExpMath<A>>(x);
  // NaN where the largest is infinite, as on the CPU.
  const A log_sum = std::log(sum.sum + (sum.largest - sum.largest));
  A even = A(0);
  if (smoothing.spread != A(0)) {
    const T* const first = x + (thread.active() ? thread.at(0) : 0);
    even = thread.template reduce_along<SumMath<A>>(
        EvenTerms<T, A>{targets, first, lines.inner, sum.largest, log_sum});
  }
  if (!thread.leads()) return;
  const int64_t row = thread.line();
  A loss = A(0), weight = A(0);
  const TargetKind kind = targets.kind(row);
  if (kind == TargetKind::kCounts) {
    const int64_t c = targets.index[row];
    weight = targets.class_weight(c);
    loss = smoothing.loss(weight, log_sum - (static_cast<A>(x[thread.at(c)]) - sum.largest), even);
  } else if (kind == TargetKind::kBad) {
    loss = std::numeric_limits<A>::quiet_NaN();
  }
  const bool counts = kind == TargetKind::kCounts;
  rows.loss[row] = loss;
  rows.weight[row] = weight;
  rows.largest[row] = counts ? sum.largest : A(0);
  rows.log_sum[row] = counts ? log_sum : A(0);
}

// dx = factor * softmax(x) - the smoothed target, from the saved largest score and log of the sum
// of the row. Only the class weights are reduced, and only with label smoothing. Memory bound:
// 2 * sizeof(T) bytes per score, meant to reach 85 % of the copy bandwidth.
template <class T, class A>
__global__ void __launch_bounds__(kReduceBlock, 2)
    backward_kernel(T* dx, const A* g, DeviceRows<A> rows, const T* x, DeviceTargets<A> targets,
                    math::Smoothing<A> smoothing, LineGrid lines) {
  after_previous_kernel();
  const LineThread thread(lines);
  A weight_sum = static_cast<A>(targets.classes);
  if (smoothing.spread != A(0) && targets.weight != nullptr) {
    weight_sum = thread.template reduce_along<SumMath<A>>(ClassWeights<A>{targets});
  }
  if (!thread.active()) return;
  const int64_t row = thread.line();
  if (targets.kind(row) != TargetKind::kCounts) {
    thread.each([&](int64_t, int64_t at) { dx[at] = T(A(0)); });
    return;
  }
  const int64_t target = targets.index[row];
  const A dloss = g[row], weight = rows.weight[row];
  const A largest = rows.largest[row], log_sum = rows.log_sum[row];
  const A factor = smoothing.softmax_factor(dloss, weight, weight_sum);
  const A target_part = smoothing.target_part(dloss, weight);
  thread.each([&](int64_t c, int64_t at) {
    A d = factor * std::exp((static_cast<A>(x[at]) - largest) - log_sum);
    if (smoothing.spread != A(0)) d -= smoothing.class_part(dloss, targets.class_weight(c));
    if (c == target) d -= target_part;
    dx[at] = static_cast<T>(d);
  });
}

}  // namespace

void cross_entropy_forward(const CrossEntropyRows& rows, const Tensor& x,
                           const ClassTargets& targets, double smoothing) {
  if (targets.rows() == 0) return;
  visit_float(x.dtype(), "cross_entropy", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = ComputeType<T>;
    const LineGrid lines(targets.rows(), targets.classes, targets.inner);
    launch_dependent(forward_kernel<T, A>, lines.grid(), dim3(kReduceBlock), 0,
                     current_stream(x.device()), DeviceRows<A>(rows), x.data<T>(),
                     DeviceTargets<A>(targets), math::Smoothing<A>::of(smoothing, targets.classes),
                     lines);
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
}

void cross_entropy_backward(const Tensor& dx, const Tensor& g, const CrossEntropyRows& rows,
                            const Tensor& x, const ClassTargets& targets, double smoothing) {
  if (dx.numel() == 0) return;
  visit_float(x.dtype(), "cross_entropy", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = ComputeType<T>;
    const LineGrid lines(targets.rows(), targets.classes, targets.inner);
    launch_dependent(backward_kernel<T, A>, lines.grid(), dim3(kReduceBlock), 0,
                     current_stream(x.device()), dx.data<T>(), g.data<A>(), DeviceRows<A>(rows),
                     x.data<T>(), DeviceTargets<A>(targets),
                     math::Smoothing<A>::of(smoothing, targets.classes), lines);
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
}

}  // namespace lathe::cuda
