// The memory that a Philox counter's values go to where a tensor is not row-major (NHWC, for
// example): for the kernels of random.h and dropout.h. For .cu files only.
#pragma once

#include <cstdint>

#include "lathe/core/gpu/strided_index.cuh"
#include "lathe/core/loop_nest.h"
#include "lathe/core/tensor.h"

namespace lathe::cuda {

/// A loop over counters, in the order that is densest for the first of N tensors: so neighbouring
/// threads access neighbouring memory, though a counter's values are far apart.
template <int N>
struct CounterLoop {
  StridedIndex<N + 1> index;  // position → the first value's offset in each tensor; the counter
  int64_t start[N + 1];       // what is to be added to those
  int64_t step[N];            // from one of a counter's values to the next, in each tensor
  uint32_t counters;
};

/// Calls part(loop) for the pieces of the loop over tensors of `shape` with these strides, where a
/// counter makes `values` neighbours in row-major order. Returns false, and calls nothing, unless
/// all of them lie along one dimension of the (merged) shape.
template <int N, class F>
bool each_counter_part(const Shape& shape, const Strides (&strides)[N], int values, F part) {
  StridedOperand operands[N + 1];
  for (int k = 0; k < N; ++k) operands[k] = {nullptr, 1, strides[k]};
  operands[N] = {nullptr, 1, contiguous_strides(shape)};
  LoopNest nest = make_nest(shape, operands, N + 1, LoopOrder::kDensestInside);
  LoopDim* neighbours = nullptr;
  for (int d = 0; d < nest.ndim; ++d) {
    if (nest.dims[d].step[N] == 1) neighbours = &nest.dims[d];
  }
  if (neighbours == nullptr || neighbours->size % values != 0) return false;
  CounterLoop<N> loop;
  for (int k = 0; k < N; ++k) loop.step[k] = neighbours->step[k];
  for (int d = 0; d < nest.ndim; ++d) nest.dims[d].step[N] /= values;  // multiples of that size
  neighbours->size /= values;
  for (int k = 0; k < N; ++k) neighbours->step[k] *= values;
  neighbours->step[N] = 1;
  each_32_bit_part(nest, [&](const LoopNest& piece, const int64_t* start) {
    loop.index = StridedIndex<N + 1>(piece);
    for (int k = 0; k <= N; ++k) loop.start[k] = start[k];
    loop.counters = static_cast<uint32_t>(piece.numel());
    part(loop);
  });
  return true;
}

}  // namespace lathe::cuda
