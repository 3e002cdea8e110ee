// CPU kernels of cross-entropy: one row (the C scores of one target) at a time, in the compute
// type. Contract: ops/losses/cross_entropy.h.
#include <algorithm>
#include <cmath>
#include <vector>

#include "lathe/core/strided_loop.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/ops/reduce_kernels/reduce_fold_cpu.h"
#include "lathe/ops/row_kernels/cross_entropy_math.h"

namespace lathe {

namespace {

using reduce_fold::fold_lanes;

/// y = scale * softmax(x).
template <class A>
LATHE_CLONES void scaled_softmax(A* __restrict__ y, const A* __restrict__ x, A m, A log_sum,
                                 A scale, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = x[i] - m;
  reduce_fold::exp_row(y, y, A(1), log_sum, n);
  for (int64_t i = 0; i < n; ++i) y[i] *= scale;
}

/// The rows of x [outer, classes, inner] as adjacent numbers of the compute type: used where they
/// are if they are so already, else gathered.
template <class T>
class Scores {
 public:
  using A = ComputeType<T>;

  Scores(const Tensor& x, const ClassTargets& targets)
      : x_(x.data<T>()), classes_(targets.classes), inner_(targets.inner) {}

  int64_t start(int64_t row) const { return row / inner_ * classes_ * inner_ + row % inner_; }

  const A* row(int64_t row, A* room) const {
    const T* from = x_ + start(row);
    if constexpr (std::is_same_v<A, T>) {
      if (inner_ == 1) return from;
    }
    for (int64_t c = 0; c < classes_; ++c) room[c] = static_cast<A>(from[c * inner_]);
    return room;
  }

 private:
  const T* x_;
  int64_t classes_, inner_;
};

/// The class weights and the smoothed targets.
template <class A>
struct Weights {
  explicit Weights(const ClassTargets& targets, double e)
      : data(targets.weight.defined() ? targets.weight.data<A>() : nullptr),
        smoothing(math::Smoothing<A>::of(e, targets.classes)) {
    sum = static_cast<A>(targets.classes);
    if (data != nullptr) sum = fold_lanes<reduce_math::Sum<A>>(data, targets.classes);
  }
  A of(int64_t c) const { return data == nullptr ? A(1) : data[c]; }

  const A* data;
  math::Smoothing<A> smoothing;
  A sum;
};

int64_t row_grain(int64_t classes) {
  return std::max<int64_t>(1, kParallelGrain / 8 / std::max<int64_t>(classes, 1));
}

template <class T>
void forward(const CrossEntropyRows& rows, const Tensor& x, const ClassTargets& targets,
             double smoothing) {
  using A = ComputeType<T>;
  const int64_t classes = targets.classes;
  const Scores<T> scores(x, targets);
  const Weights<A> weights(targets, smoothing);
  const int64_t* target = targets.index.data<int64_t>();
  A *loss = rows.loss.data<A>(), *weight = rows.weight.data<A>();
  A *largest = rows.largest.data<A>(), *log_sum = rows.log_sum.data<A>();
  parallel_for(targets.rows(), row_grain(classes), [&](int64_t begin, int64_t end) {
    std::vector<A> room(static_cast<size_t>(2 * classes));
    for (int64_t i = begin; i < end; ++i) {
      loss[i] = weight[i] = largest[i] = log_sum[i] = A(0);
      if (target[i] == targets.ignore_index) continue;
      const A* row = scores.row(i, room.data());
      const A m = largest[i] = fold_lanes<reduce_math::Max<A>>(row, classes);
      log_sum[i] = std::log(reduce_fold::exp_row(room.data() + classes, row, A(1), m, classes));
      weight[i] = weights.of(target[i]);
      A even = A(0);
      if (weights.smoothing.spread != A(0)) {
        for (int64_t c = 0; c < classes; ++c) even += weights.of(c) * (log_sum[i] - (row[c] - m));
      }
      loss[i] = weights.smoothing.loss(weight[i], log_sum[i] - (row[target[i]] - m), even);
    }
  });
}

template <class T>
void backward(const Tensor& dx, const Tensor& g, const CrossEntropyRows& rows, const Tensor& x,
              const ClassTargets& targets, double smoothing) {
  using A = ComputeType<T>;
  const int64_t classes = targets.classes;
  const Scores<T> scores(x, targets);
  const Weights<A> weights(targets, smoothing);
  const int64_t* target = targets.index.data<int64_t>();
  const A *dloss = g.data<A>(), *weight = rows.weight.data<A>();
  const A *largest = rows.largest.data<A>(), *log_sum = rows.log_sum.data<A>();
  T* out = dx.data<T>();
  parallel_for(targets.rows(), row_grain(classes), [&](int64_t begin, int64_t end) {
    std::vector<A> room(static_cast<size_t>(2 * classes));
    A* d = room.data() + classes;
    for (int64_t i = begin; i < end; ++i) {
      if (target[i] == targets.ignore_index) {
        std::fill(d, d + classes, A(0));
      } else {
        const math::Smoothing<A>& smoothed = weights.smoothing;
        const A scale = smoothed.softmax_factor(dloss[i], weight[i], weights.sum);
        scaled_softmax(d, scores.row(i, room.data()), largest[i], log_sum[i], scale, classes);
        if (smoothed.spread != A(0)) {
          for (int64_t c = 0; c < classes; ++c)
            d[c] -= smoothed.class_part(dloss[i], weights.of(c));
        }
        d[target[i]] -= smoothed.target_part(dloss[i], weight[i]);
      }
      T* to = out + scores.start(i);
      for (int64_t c = 0; c < classes; ++c) to[c * targets.inner] = static_cast<T>(d[c]);
    }
  });
}

}  // namespace

void cpu::cross_entropy_forward(const CrossEntropyRows& rows, const Tensor& x,
                                const ClassTargets& targets, double smoothing) {
  if (targets.rows() == 0) return;
  visit_float(x.dtype(), "cross_entropy", [&](auto tag) {
    forward<typename decltype(tag)::type>(rows, x, targets, smoothing);
  });
}

void cpu::cross_entropy_backward(const Tensor& dx, const Tensor& g, const CrossEntropyRows& rows,
                                 const Tensor& x, const ClassTargets& targets, double smoothing) {
  if (targets.rows() == 0) return;
  visit_float(x.dtype(), "cross_entropy", [&](auto tag) {
    backward<typename decltype(tag)::type>(dx, g, rows, x, targets, smoothing);
  });
}

}  // namespace lathe
