// How the CPU's loops of ops/index.h and scatter_reduce.h go through lines of a tensor of indices.
#pragma once

#include <algorithm>
#include <utility>

#include "lathe/core/loop_nest.h"
#include "lathe/core/tensor.h"
#include "lathe/core/thread_pool.h"

namespace lathe::cpu {

inline constexpr int64_t kCopyTask = 16384;  // the least number of elements for one task

/// How many parts of `elements` elements one task takes.
inline int64_t tasks_of(int64_t elements) {
  return std::max<int64_t>(1, kCopyTask / std::max<int64_t>(1, elements));
}

/// Calls f(line start in index, in a, in b) for every line of index along dim.
template <class F>
void each_line(const Tensor& index, int dim, const Tensor& a, const Tensor& b, F f) {
  if (index.numel() == 0) return;
  Shape starts = index.shape();
  const int64_t length = std::exchange(starts[dim], 1);
  const StridedOperand operands[] = {
      {nullptr, 1, index.strides()}, {nullptr, 1, a.strides()}, {nullptr, 1, b.strides()}};
  const LoopNest nest = make_nest(starts, operands, 3, LoopOrder::kRowMajor);
  parallel_for(nest.numel(), tasks_of(length), [&](int64_t begin, int64_t end) {
    NestWalk<3> line(nest, begin);
    for (int64_t i = begin; i < end; ++i, line.next()) {
      f(line.offset[0], line.offset[1], line.offset[2]);
    }
  });
}

}  // namespace lathe::cpu
