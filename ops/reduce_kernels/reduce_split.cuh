// How a reduction is divided among threads: which kernel of reduce_kernels.cuh, how many threads
// per result, how many chunks. It follows from shapes and strides only, never from the GPU, so that
// results repeat bit for bit. For .cu files only.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstdlib>

#include "lathe/core/ceil_div.h"
#include "lathe/core/gpu/strided_index.cuh"
#include "lathe/core/loop_nest.h"
#include "lathe/core/tensor.h"

namespace lathe::cuda {

inline constexpr unsigned kReduceBlock = 256;
/// Numbers that a thread reads before it uses the first, to hide the memory's latency.
inline constexpr int kFold = 8;
/// Enough blocks to fill the largest GPU: 8 for each of an H100/H200's 132 multiprocessors.
inline constexpr int64_t kFillingBlocks = 132 * 8;

/// From a position in a loop nest to offsets: by a product if there is one dimension, of any size;
/// else by StridedIndex, in 32 bits. All threads take the same way.
template <int N>
class NestIndex {
 public:
  struct Offsets {
    int64_t at[N];
  };

  NestIndex() = default;
  NestIndex(const LoopNest& nest, const int64_t* start)
      : one_dimension_(nest.ndim == 1), index_(nest) {
    for (int k = 0; k < N; ++k) {
      start_[k] = start[k];
      step_[k] = nest.dims[0].step[k];
    }
  }

  LATHE_HD Offsets operator()(int64_t i) const {
    Offsets result;
    if (one_dimension_) {
      for (int k = 0; k < N; ++k) result.at[k] = start_[k] + i * step_[k];
    } else {
      const auto offsets = index_(static_cast<uint32_t>(i));
      for (int k = 0; k < N; ++k) result.at[k] = start_[k] + offsets[k];
    }
    return result;
  }

  /// Operand 0's offsets at positions i, i + step, … For those that are not below `end` it gives
  /// that of i, which can be read.
  template <int K>
  LATHE_HD void fill(int64_t (&at)[K], int64_t i, int64_t step, int64_t end) const {
    if (one_dimension_) {
      const int64_t base = start_[0] + i * step_[0], stride = step * step_[0];
      for (int u = 0; u < K; ++u) at[u] = i + u * step < end ? base + u * stride : base;
    } else {
      for (int u = 0; u < K; ++u) at[u] = (*this)(i + u * step < end ? i + u * step : i).at[0];
    }
  }
  /// Neighbouring positions are neighbours in operand 0's memory, from offset start() on.
  LATHE_HD bool dense() const { return one_dimension_ && step_[0] == 1; }
  LATHE_HD int64_t start() const { return start_[0]; }

 private:
  bool one_dimension_ = true;
  int64_t start_[N] = {}, step_[N] = {};
  StridedIndex<N, uint32_t> index_;
};

/// Calls part(nest, start) for `nest`, or for pieces of it that NestIndex can handle.
template <class F>
void each_indexable_part(const LoopNest& nest, F part) {
  constexpr int64_t kStart[kMaxOperands] = {};
  if (nest.ndim == 1) return part(nest, kStart);
  each_32_bit_part(nest, part);
}

/// The loops of a reduction, in elements of x and of the output.
struct ReduceNests {
  LoopNest kept, reduced;
  int64_t outputs = 0, count = 0;  // number of results, and of numbers for each
};

/// How one launch of a reduction divides it among threads.
struct ReduceSplit {
  NestIndex<2> kept;     // a result's position → where its numbers start, and where it is written
  NestIndex<1> reduced;  // a number's position within its result → its offset from that start
  int64_t outputs = 0, count = 0;
  int64_t chunks = 1, chunk = 0;  // each result's numbers are cut into `chunks` runs of `chunk`
  bool rows = true;               // the numbers of one result are the densest in memory
  unsigned width = 1;             // rows: threads per result; else: neighbouring columns per block
  int64_t columns = 0;            // packets of neighbouring results, each read at once; kept's unit
  int64_t output_step = 0;        // from a result of a packet to the next one, in the output
};

/// The smallest power of two that is not below n >= 1.
inline unsigned power_above(int64_t n) {
  return static_cast<unsigned>(std::bit_ceil(static_cast<uint64_t>(n)));
}

/// Threads that share a short line of n numbers: a few numbers for each, so that shuffles do not
/// dominate.
inline unsigned lanes_for(int64_t n) { return power_above(std::clamp<int64_t>(n / 4, 1, 32)); }

/// Threads of a block that together join the `chunks` partials of one result.
inline unsigned join_rows(int64_t chunks) {
  return std::clamp(power_above(ceil_div(chunks, 8)), 8u, kReduceBlock);
}

/// The smallest step of x other than 0; INT64_MAX if all steps are 0.
inline int64_t density(const LoopNest& nest) {
  int64_t least = INT64_MAX;
  for (int d = 0; d < nest.ndim; ++d) {
    if (nest.dims[d].step[0] != 0) least = std::min(least, std::abs(nest.dims[d].step[0]));
  }
  return least;
}

/// The nests for x of shape `shape`, reduced over the dimensions in which `kept` has size 1 and x
/// has not.
inline ReduceNests reduce_nests(const Shape& shape, const Strides& x, const Shape& kept,
                                const Strides& out) {
  Shape reduced = shape;
  for (int d = 0; d < shape.size(); ++d) {
    if (kept[d] == shape[d]) reduced[d] = 1;
  }
  ReduceNests nests;
  nests.outputs = numel_of(kept);
  nests.count = numel_of(reduced);
  if (nests.outputs == 0) return nests;
  Strides steps = x;
  if (nests.count == 0) {  // no numbers, so maybe a null pointer, which takes no offset
    for (int64_t& step : steps) step = 0;
  }
  const StridedOperand operands[] = {{nullptr, 1, steps}, {nullptr, 1, out}};
  nests.kept = make_nest(kept, operands, 2, LoopOrder::kDensestInside);
  // Of x alone: the output's steps, of no meaning here, would keep its dimensions from merging.
  nests.reduced =
      make_nest(nests.count > 0 ? reduced : Shape{}, operands, 1, LoopOrder::kDensestInside);
  return nests;
}

/// Whether the columns' numbers, the first of which is at `x`, can be read in packets of `packet`
/// neighbouring results.
template <class T>
bool holds_column_packets(const LoopNest& kept, const LoopNest& reduced, const T* x, int packet) {
  const LoopDim& inner = kept.dims[0];
  if (inner.step[0] != 1 || inner.size % packet != 0) return false;
  if (reinterpret_cast<uintptr_t>(x) % (packet * sizeof(T)) != 0) return false;
  for (int d = 1; d < kept.ndim; ++d) {
    if (kept.dims[d].step[0] % packet != 0) return false;
  }
  for (int d = 0; d < reduced.ndim; ++d) {
    if (reduced.dims[d].step[0] % packet != 0) return false;
  }
  return true;
}

/// Changes the loop over results into one over packets of them.
inline LoopNest columns_of(LoopNest kept, int packet) {
  kept.dims[0].size /= packet;
  for (int k = 0; k < 2; ++k) kept.dims[0].step[k] *= packet;
  return kept;
}

/// Divides the reduction of the numbers of `reduced` to the results of `kept`, where the numbers of
/// `packet` results are read at once; its indices are still to be set.
inline ReduceSplit split_reduction(const LoopNest& kept, const LoopNest& reduced, int64_t count,
                                   int packet) {
  ReduceSplit split;
  split.outputs = kept.numel();
  split.count = count;
  split.rows = density(reduced) <= density(kept);
  split.columns = split.outputs / packet;
  split.output_step = kept.dims[0].step[1];
  int64_t most_chunks = 1, blocks = split.outputs;  // blocks: without chunks
  int64_t unit = 1;                                 // chunks are a multiple of it
  if (split.rows) {
    const int64_t folds = ceil_div(split.count, kFold);
    split.width = folds <= 128 ? power_above(std::clamp<int64_t>(folds, 1, 32)) : kReduceBlock;
    if (split.width == kReduceBlock) {
      unit = kReduceBlock * kFold;  // all begin as well aligned as the first
      most_chunks = split.count / (unit * 2);
    }
  } else {
    const unsigned rows = power_above(std::clamp<int64_t>(split.count / kFold, 1, 8));
    split.width = std::min(power_above(split.columns), kReduceBlock / rows);
    blocks = ceil_div(split.columns, split.width);
    most_chunks = split.count * split.width / (kReduceBlock * kFold * 2);
  }
  split.chunks = std::clamp<int64_t>(std::min(most_chunks, kFillingBlocks / blocks), 1, 65535);
  split.chunk = ceil_div(split.count, split.chunks);
  if (split.chunks > 1) {
    split.chunk = ceil_div(split.chunk, unit) * unit;
    split.chunks = ceil_div(split.count, split.chunk);
  }
  return split;
}

}  // namespace lathe::cuda
