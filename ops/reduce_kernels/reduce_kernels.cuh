// The kernels behind every reduction (reduce_cuda.cu, argmax_cuda.cu): over rows, over columns, and
// the join of their partial results. For .cu files only.
//
// A Math is the arithmetic of one reduction. It has numbers of type Value and partial results of
// type Partial:
//   value(x)                 an element as a Value
//   start()                  the partial of no numbers
//   kFiller                  a Value that changes no partial
//   fold(v, n, first, step)  the partial of v[0] … v[n-1], at positions first, first + step, …; the
//                            rest of v is kFiller
//   combine(a, b)            the partial of both
//   kCentred                 true: the first number of each result is subtracted from its numbers
// A Source holds the numbers: x[i] is an element, x + offset the source from there; usually a
// pointer. A Target writes the result of a partial at an offset of the output:
// target(offset, partial).
#pragma once

#include <vector>

#include "lathe/core/gpu/launch.h"
#include "lathe/ops/reduce_kernels/block_reduce.cuh"
#include "lathe/ops/reduce_kernels/reduce_plan.cuh"

namespace lathe::cuda {

/// How many blocks must fit on a multiprocessor: 64 registers per thread, or 128 for larger
/// partials.
template <class Math>
inline constexpr int kBlocksPerProcessor = sizeof(typename Math::Partial) > 8 ? 2 : 4;

template <class Math>
struct Combine {
  using Partial = typename Math::Partial;
  __device__ Partial operator()(const Partial& a, const Partial& b) const {
    return Math::combine(a, b);
  }
};

/// The partial of the numbers at positions first, first + step, … below `end`; position i is at
/// x[index(i).at[0]].
template <class Math, class Source, class Index>
__device__ typename Math::Partial fold_strided(Source x, const Index& index, int64_t first,
                                               int64_t step, int64_t end) {
  typename Math::Partial total = Math::start();
  typename Math::Value v[kFold];
  const auto number = [&](int64_t i) {
    const auto value = Math::value(x[index(i).at[0]]);
    if constexpr (Math::kCentred) return value - Math::value(x[0]);
    return value;
  };
  int64_t i = first;
  for (; i + (kFold - 1) * step < end; i += kFold * step) {
    for (int u = 0; u < kFold; ++u) v[u] = number(i + u * step);
    total = Math::combine(total, Math::fold(v, kFold, i, step));
  }
  if (i >= end) return total;
  int n = 0;
  for (int u = 0; u < kFold; ++u) {
    v[u] = Math::kFiller;
    if (i + u * step < end) {
      v[u] = number(i + u * step);
      n = u + 1;
    }
  }
  return Math::combine(total, Math::fold(v, n, i, step));
}

// The densest dimension is reduced: plan.width adjacent threads (up to a warp, or the block) share
// a result and read neighbouring numbers, kFold at a time. Where there are few results, the numbers
// of each are cut into chunks, and partials go to parts[chunk][result].
// Memory bound: each number is read once. It is meant to reach 90 % of the copy bandwidth from some
// MiB on, because 8 loads per thread are in flight and hide the arithmetic of sums. logsumexp in 16
// bits is slower: an exponential per 2 bytes bounds it.
template <class Math, class Target, class Source>
__global__ void __launch_bounds__(kReduceBlock, kBlocksPerProcessor<Math>)
    reduce_rows_kernel(Target target, typename Math::Partial* parts, Source x, ReducePlan plan) {
  const unsigned per_block = kReduceBlock / plan.width, lane = threadIdx.x % plan.width;
  const int64_t items = plan.outputs * plan.chunks, step = int64_t(gridDim.x) * per_block;
  for (int64_t base = blockIdx.x * int64_t(per_block); base < items; base += step) {
    const int64_t item = base + threadIdx.x / plan.width;
    const int64_t output = plan.chunks == 1 ? item : item / plan.chunks;
    const int64_t chunk = plan.chunks == 1 ? 0 : item % plan.chunks;
    auto total = Math::start();
    NestIndex<2>::Offsets place = {};
    if (item < items) {
      const int64_t begin = chunk * plan.chunk, end = begin + plan.chunk;
      place = plan.kept(output);
      total = fold_strided<Math>(x + place.at[0], plan.reduced, begin + lane, plan.width,
                                 end < plan.count ? end : plan.count);
    }
    if (plan.width == kReduceBlock) {
      total = block_reduce(total, Combine<Math>{});
    } else {
      total = warp_reduce(total, Combine<Math>{}, plan.width);
    }
    if (lane != 0 || item >= items) continue;
    if (parts == nullptr) {
      target(place.at[1], total);
    } else {
      parts[chunk * plan.outputs + output] = total;
    }
  }
}

// The densest dimension is kept: a block is plan.width neighbouring results wide, so that a warp
// reads neighbouring numbers, and its rows of threads divide the numbers of each result. Chunks run
// along gridDim.y. Bandwidth as above.
template <class Math, class Target, class Source>
__global__ void __launch_bounds__(kReduceBlock, kBlocksPerProcessor<Math>)
    reduce_columns_kernel(Target target, typename Math::Partial* parts, Source x, ReducePlan plan) {
  const unsigned rows = kReduceBlock / plan.width, row = threadIdx.x / plan.width;
  const int64_t output = blockIdx.x * int64_t(plan.width) + threadIdx.x % plan.width;
  const int64_t begin = blockIdx.y * plan.chunk, end = begin + plan.chunk;
  auto total = Math::start();
  NestIndex<2>::Offsets place = {};
  if (output < plan.outputs) {
    place = plan.kept(output);
    total = fold_strided<Math>(x + place.at[0], plan.reduced, begin + row, rows,
                               end < plan.count ? end : plan.count);
  }
  total = block_reduce_columns<kReduceBlock>(total, Combine<Math>{}, plan.width);
  if (row != 0 || output >= plan.outputs) return;
  if (parts == nullptr) {
    target(place.at[1], total);
  } else {
    parts[blockIdx.y * plan.outputs + output] = total;
  }
}

// The second stage: joins parts[chunk][result] over the chunks. Columns of a block are results, as
// above, and so few per block that a thread joins about 8 partials: a few microseconds, whatever
// the bandwidth.
template <class Math, class Target>
__global__ void __launch_bounds__(kReduceBlock, kBlocksPerProcessor<Math>)
    join_parts_kernel(Target target, const typename Math::Partial* __restrict__ parts,
                      NestIndex<2> kept, int64_t outputs, int64_t chunks, unsigned width) {
  const unsigned rows = kReduceBlock / width, row = threadIdx.x / width;
  const int64_t output = blockIdx.x * int64_t(width) + threadIdx.x % width;
  auto total = Math::start();
  if (output < outputs) {
    for (int64_t c = row; c < chunks; c += rows) {
      total = Math::combine(total, parts[c * outputs + output]);
    }
  }
  total = block_reduce_columns<kReduceBlock>(total, Combine<Math>{}, width);
  if (row == 0 && output < outputs) target(kept(output).at[1], total);
}

template <class Math, class Target, class Source>
void launch_part(const Target& target, typename Math::Partial* parts, Source x,
                 const ReducePlan& plan, Stream stream) {
  const dim3 block(kReduceBlock);
  if (plan.rows) {
    const int64_t blocks = ceil_div(plan.outputs * plan.chunks, kReduceBlock / plan.width);
    const dim3 grid(static_cast<unsigned>(std::min<int64_t>(blocks, 1 << 20)));
    launch(reduce_rows_kernel<Math, Target, Source>, grid, block, 0, stream, target, parts, x,
           plan);
  } else {
    const dim3 grid(static_cast<unsigned>(ceil_div(plan.outputs, plan.width)),
                    static_cast<unsigned>(plan.chunks));
    launch(reduce_columns_kernel<Math, Target, Source>, grid, block, 0, stream, target, parts, x,
           plan);
  }
  LATHE_CUDA_CHECK(cudaGetLastError());
}

/// Reduces the numbers at `x`, which are on `device`. Usually this is one launch, or two where
/// there are few results; more where the offsets of scattered elements need more than 32 bits.
template <class Math, class Source, class Target>
void launch_reduction(const Target& target, Source x, const ReduceNests& nests, Device device) {
  using Partial = typename Math::Partial;
  if (nests.outputs == 0) return;
  const Stream stream = current_stream(device);
  each_indexable_part(nests.kept, [&](const LoopNest& kept, const int64_t* start) {
    std::vector<ReducePlan> plans;
    int64_t chunks = 0;
    each_indexable_part(nests.reduced, [&](const LoopNest& reduced, const int64_t* from) {
      const int64_t count = nests.count == 0 ? 0 : reduced.numel();
      plans.push_back(plan_reduction(kept, reduced, count));
      plans.back().kept = NestIndex<2>(kept, start);
      plans.back().reduced = NestIndex<1>(reduced, from);
      chunks += plans.back().chunks;
    });
    if (chunks == 1)
      return launch_part<Math>(target, static_cast<Partial*>(nullptr), x, plans[0], stream);

    const int64_t outputs = kept.numel();
    const int64_t bytes = chunks * outputs * static_cast<int64_t>(sizeof(Partial));
    const Tensor room = empty({bytes}, {.dtype = kU8, .device = device});
    Partial* const parts = static_cast<Partial*>(room.raw_data());
    Partial* to = parts;
    for (const ReducePlan& plan : plans) {
      launch_part<Math>(target, to, x, plan, stream);
      to += plan.chunks * outputs;
    }
    const unsigned width = kReduceBlock / join_rows(chunks);
    const dim3 grid(static_cast<unsigned>(ceil_div(outputs, width)));
    launch(join_parts_kernel<Math, Target>, grid, dim3(kReduceBlock), 0, stream, target, parts,
           plans[0].kept, outputs, chunks, width);
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
}

}  // namespace lathe::cuda
