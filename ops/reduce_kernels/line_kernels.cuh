// How kernels that work on whole lines (softmax, losses, row norms) divide them among threads. The
// lines of a contiguous [outer, n, inner] run along its middle dimension. For .cu files only.
#pragma once

#include <algorithm>

#include "lathe/core/gpu/launch.h"
#include "lathe/ops/reduce_kernels/block_reduce.cuh"
#include "lathe/ops/reduce_kernels/reduce_kernels.cuh"

namespace lathe::cuda {

/// Short lines get a few threads each, long ones a block; in both, neighbouring threads read
/// neighbouring numbers. Where inner > 1, neighbouring threads work on neighbouring lines.
struct LineGrid {
  int64_t count, n, inner;
  bool columns;    // a block is a matrix of threads: `width` lines, their numbers dealt to its rows
  unsigned width;  // with columns: lines per block; else threads per line

  LineGrid(int64_t count_, int64_t n_, int64_t inner_)
      : count(count_), n(n_), inner(inner_), columns(inner_ > 1) {
    const unsigned rows = power_above(std::clamp<int64_t>(n / kFold, 1, 8));
    width = columns ? kReduceBlock / rows : n <= 1024 ? lanes_for(n) : kReduceBlock;
  }
  dim3 grid() const {
    return dim3(static_cast<unsigned>(ceil_div(count, columns ? width : kReduceBlock / width)));
  }
};

/// A thread's part of its line. Threads past the last line only take part in the reductions.
class LineThread {
 public:
  __device__ explicit LineThread(const LineGrid& lines)
      : n_(lines.n), inner_(lines.inner), width_(lines.width), columns_(lines.columns) {
    const unsigned t = threadIdx.x, across = t % width_, along = t / width_;
    const unsigned per_block = columns_ ? width_ : kReduceBlock / width_;
    line_ = blockIdx.x * int64_t(per_block) + (columns_ ? across : along);
    first_ = columns_ ? along : across;
    step_ = columns_ ? kReduceBlock / width_ : width_;
    active_ = line_ < lines.count;
    start_ = inner_ == 1 ? line_ * n_ : line_ / inner_ * n_ * inner_ + line_ % inner_;
  }

  __device__ bool active() const { return active_; }
  /// True in the one thread that does what is done once per line.
  __device__ bool leads() const { return active_ && first_ == 0; }
  __device__ int64_t line() const { return line_; }
  /// The offset of number i of the line.
  __device__ int64_t at(int64_t i) const { return start_ + i * inner_; }

  /// f(i, at(i)) for each of the thread's numbers.
  template <class F>
  __device__ void each(F f) const {
    if (!active_) return;
    for (int64_t i = first_; i < n_; i += step_) f(i, at(i));
  }

  /// The partial of the whole line, for all of its threads. `source[i]` is the element at offset i
  /// of the tensor.
  template <class Math, class Source>
  __device__ typename Math::Partial reduce(Source source) const {
    auto total = Math::start();
    if (active_) total = fold_strided<Math>(source + start_, Step{inner_}, first_, step_, n_);
    return share<Math>(total);
  }
  /// The same for numbers that depend only on the position in the line: source[i], i < n.
  template <class Math, class Source>
  __device__ typename Math::Partial reduce_along(Source source) const {
    auto total = Math::start();
    if (active_) total = fold_strided<Math>(source, Step{1}, first_, step_, n_);
    return share<Math>(total);
  }

 private:
  struct Step {
    int64_t step;
    template <int K>
    __device__ void fill(int64_t (&at)[K], int64_t i, int64_t stride, int64_t end) const {
      for (int u = 0; u < K; ++u) at[u] = (i + u * stride < end ? i + u * stride : i) * step;
    }
  };

  template <class Math>
  __device__ typename Math::Partial share(const typename Math::Partial& total) const {
    const Combine<Math> combine;
    if (columns_) return block_reduce_columns_all<kReduceBlock>(total, combine, width_);
    if (width_ == kReduceBlock) return block_reduce_all(total, combine);
    return warp_reduce_all(total, combine, width_);
  }

  int64_t n_, inner_, line_, start_, first_, step_;
  unsigned width_;
  bool columns_, active_;
};

}  // namespace lathe::cuda
