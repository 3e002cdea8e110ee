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

#include <type_traits>
#include <vector>

#include "lathe/core/gpu/dependent_launch.cuh"
#include "lathe/core/gpu/packet.cuh"
#include "lathe/ops/reduce_kernels/block_reduce.cuh"
#include "lathe/ops/reduce_kernels/reduce_split.cuh"

namespace lathe::cuda {

/// How many blocks must fit on a multiprocessor if a thread has V partials: 64 registers per thread
/// for one of 4 bytes, 80 for one of 8, 128 for more.
template <class Math, int V = 1, size_t size = sizeof(typename Math::Partial)>
inline constexpr int kBlocksPerProcessor = size > 4 ? (size > 8 / V ? 2 : 3) : 4;

template <class Math>
struct Combine {
  using Partial = typename Math::Partial;
  __device__ Partial operator()(const Partial& a, const Partial& b) const {
    return Math::combine(a, b);
  }
};

/// An element as a number; `centre` is the first number of its result.
template <class Math, class Element>
__device__ typename Math::Value number_of(Element x, const typename Math::Value& centre) {
  if constexpr (Math::kCentred) return Math::value(x) - centre;
  return Math::value(x);
}

/// The partials of V neighbouring results (V = 1 unless Source is a pointer) over the numbers at
/// positions first, first + step, … below `end`, which lie at the offsets that index.fill() gives.
/// Offsets first, then the loads, then the arithmetic, so that all loads are under way at once.
template <class Math, int V, class Source, class Index>
__device__ void fold_strided(typename Math::Partial (&total)[V], Source x, const Index& index,
                             int64_t first, int64_t step, int64_t end) {
  using Element = std::remove_cvref_t<decltype(x[0])>;
  typename Math::Value centre[V] = {};
  for (int c = 0; c < V; ++c) {
    total[c] = Math::start();
    if constexpr (Math::kCentred) {
      if (first < end) centre[c] = Math::value(x[c]);
    }
  }
  for (int64_t i = first; i < end; i += kFold * step) {
    int64_t at[kFold];
    Packet<Element, V> read[kFold];
    index.fill(at, i, step, end);
    for (int u = 0; u < kFold; ++u) {
      if constexpr (V == 1) {
        read[u].v[0] = x[at[u]];
      } else {
        read[u] = *reinterpret_cast<const Packet<Element, V>*>(x + at[u]);
      }
    }
    int n = 0;
    for (int u = 0; u < kFold; ++u) n += i + u * step < end;
    for (int c = 0; c < V; ++c) {
      typename Math::Value v[kFold];
      for (int u = 0; u < kFold; ++u)
        v[u] = u < n ? number_of<Math>(read[u].v[c], centre[c]) : Math::kFiller;
      total[c] = Math::combine(total[c], Math::fold(v, n, i, step));
    }
  }
}

/// The partial of one result.
template <class Math, class Source, class Index>
__device__ typename Math::Partial fold_strided(Source x, const Index& index, int64_t first,
                                               int64_t step, int64_t end) {
  typename Math::Partial total[1];
  fold_strided<Math>(total, x, index, first, step, end);
  return total[0];
}

/// The thread's share of numbers begin … end - 1, which lie one after another from x on: `width`
/// threads deal groups of kFold among them, in accesses of 16 bytes, 64 bytes under way in each
/// thread. The numbers before the first whole access and after the last are dealt one by one.
template <class Math, class T>
__device__ typename Math::Partial fold_dense(const T* x, int64_t begin, int64_t end, unsigned lane,
                                             unsigned width) {
  constexpr int kPacket = 16 / static_cast<int>(sizeof(T));
  constexpr int kGroups = kPacket / 2;  // of kFold numbers
  struct Group {
    Packet<T, kPacket> part[kFold / kPacket];
  };
  auto total = Math::start();
  const auto centre = Math::value(x[0]);
  const auto past = reinterpret_cast<uintptr_t>(x + begin) % 16;
  const int64_t aligned = past == 0 ? begin : begin + static_cast<int64_t>((16 - past) / sizeof(T));
  const int64_t head = aligned < end ? aligned : end;
  const int64_t groups = (end - head) / kFold, tail = head + groups * kFold;
  const Group* const group = reinterpret_cast<const Group*>(x + head);
  const auto add = [&](const Group& read, int64_t g) {
    typename Math::Value v[kFold];
    for (int k = 0; k < kFold; ++k)
      v[k] = number_of<Math>(read.part[k / kPacket].v[k % kPacket], centre);
    total = Math::combine(total, Math::fold(v, kFold, head + g * kFold, 1));
  };
  int64_t g = lane;
  for (; g + (kGroups - 1) * width < groups; g += kGroups * width) {
    Group read[kGroups];
    for (int u = 0; u < kGroups; ++u) read[u] = group[g + u * width];
    for (int u = 0; u < kGroups; ++u) add(read[u], g + u * width);
  }
  for (; g < groups; g += width) {
    const Group read[1] = {group[g]};
    add(read[0], g);
  }
  for (int64_t k = lane; k < head - begin + end - tail; k += width) {
    const int64_t i = k < head - begin ? begin + k : tail + k - (head - begin);
    typename Math::Value v[kFold];
    for (int u = 0; u < kFold; ++u) v[u] = u == 0 ? number_of<Math>(x[i], centre) : Math::kFiller;
    total = Math::combine(total, Math::fold(v, 1, i, 1));
  }
  return total;
}

/// The partial of a row's numbers begin … end - 1, as far as the thread `lane` of `width` reads
/// them.
template <class Math, class Source>
__device__ typename Math::Partial fold_row(Source x, const NestIndex<1>& index, int64_t begin,
                                           int64_t end, unsigned lane, unsigned width) {
  if constexpr (std::is_pointer_v<Source>) {
    if (width >= 8 && index.dense())  // shorter rows have too few whole accesses
      return fold_dense<Math>(x + index.start(), begin, end, lane, width);
  }
  return fold_strided<Math>(x, index, begin + lane, width, end);
}

// The densest dimension is reduced: split.width adjacent threads (up to a warp, or the block) share
// a result and read neighbouring numbers, kFold at a time. Where there are few results, the numbers
// of each are cut into chunks, and partials go to parts[chunk][result].
// Memory bound: each number is read once. It is meant to reach 90 % of the copy bandwidth from some
// MiB on, because 64 bytes per thread are under way and hide the arithmetic of sums. logsumexp in
// 16 bits is slower: an exponential per 2 bytes bounds it.
template <class Math, class Target, class Source>
__global__ void __launch_bounds__(kReduceBlock, kBlocksPerProcessor<Math>)
    reduce_rows_kernel(Target target, typename Math::Partial* parts, Source x, ReduceSplit split) {
  after_previous_kernel();
  const unsigned per_block = kReduceBlock / split.width, lane = threadIdx.x % split.width;
  const int64_t items = split.outputs * split.chunks, step = int64_t(gridDim.x) * per_block;
  for (int64_t base = blockIdx.x * int64_t(per_block); base < items; base += step) {
    const int64_t item = base + threadIdx.x / split.width;
    const int64_t output = split.chunks == 1 ? item : item / split.chunks;
    const int64_t chunk = split.chunks == 1 ? 0 : item % split.chunks;
    auto total = Math::start();
    NestIndex<2>::Offsets place = {};
    if (item < items) {
      const int64_t begin = chunk * split.chunk, end = begin + split.chunk;
      place = split.kept(output);
      total = fold_row<Math>(x + place.at[0], split.reduced, begin,
                             end < split.count ? end : split.count, lane, split.width);
    }
    if (split.width == kReduceBlock) {
      total = block_reduce(total, Combine<Math>{});
    } else {
      total = warp_reduce(total, Combine<Math>{}, split.width);
    }
    if (lane != 0 || item >= items) continue;
    if (parts == nullptr) {
      target(place.at[1], total);
    } else {
      parts[chunk * split.outputs + output] = total;
    }
  }
}

/// Neighbouring results whose numbers one access reads: 8 bytes of them, so that kFold accesses fit
/// the registers.
template <class Source>
inline constexpr int kColumnPacket = 1;
template <class T>
inline constexpr int kColumnPacket<const T*> = 8 / static_cast<int>(sizeof(T));

// The densest dimension is kept: a block is split.width packets of V neighbouring results wide, so
// that a warp reads neighbouring numbers, and its rows of threads divide the numbers of each
// result. Chunks run along gridDim.y. Bandwidth as above.
template <class Math, int V, class Target, class Source>
__global__ void __launch_bounds__(kReduceBlock, kBlocksPerProcessor<Math, V>)
    reduce_columns_kernel(Target target, typename Math::Partial* parts, Source x,
                          ReduceSplit split) {
  after_previous_kernel();
  const unsigned rows = kReduceBlock / split.width, row = threadIdx.x / split.width;
  const int64_t column = blockIdx.x * int64_t(split.width) + threadIdx.x % split.width;
  const int64_t begin = blockIdx.y * split.chunk, end = begin + split.chunk;
  typename Math::Partial total[V];
  NestIndex<2>::Offsets place = {};
  const bool inside = column < split.columns;
  if (inside) place = split.kept(column);
  fold_strided<Math>(total, x + place.at[0], split.reduced, begin + row, rows,
                     !inside             ? 0
                     : end < split.count ? end
                                         : split.count);
  for (int c = 0; c < V; ++c) {
    total[c] = block_reduce_columns<kReduceBlock>(total[c], Combine<Math>{}, split.width);
    if (row != 0 || !inside) continue;
    if (parts == nullptr) {
      target(place.at[1] + c * split.output_step, total[c]);
    } else {
      parts[blockIdx.y * split.outputs + column * V + c] = total[c];
    }
  }
}

// The second stage: joins parts[chunk][result] over the chunks. Columns of a block are results, as
// above, and so few per block that a thread joins about 8 partials: a few microseconds, whatever
// the bandwidth.
template <class Math, class Target>
__global__ void __launch_bounds__(kReduceBlock, kBlocksPerProcessor<Math>)
    join_parts_kernel(Target target, const typename Math::Partial* __restrict__ parts,
                      NestIndex<2> kept, int64_t outputs, int64_t chunks, unsigned width) {
  after_previous_kernel();
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
                 const ReduceSplit& split, Stream stream) {
  const dim3 block(kReduceBlock);
  if (split.rows) {
    const int64_t blocks = ceil_div(split.outputs * split.chunks, kReduceBlock / split.width);
    const dim3 grid(static_cast<unsigned>(std::min<int64_t>(blocks, 1 << 20)));
    launch_dependent(reduce_rows_kernel<Math, Target, Source>, grid, block, 0, stream, target,
                     parts, x, split);
  } else {
    const dim3 grid(static_cast<unsigned>(ceil_div(split.columns, split.width)),
                    static_cast<unsigned>(split.chunks));
    const auto columns = split.columns == split.outputs
                             ? reduce_columns_kernel<Math, 1, Target, Source>
                             : reduce_columns_kernel<Math, kColumnPacket<Source>, Target, Source>;
    launch_dependent(columns, grid, block, 0, stream, target, parts, x, split);
  }
  LATHE_CUDA_CHECK(cudaGetLastError());
}

/// The split for the results of `kept`, the numbers of which begin at x.
template <class Source>
ReduceSplit split_part(Source x, const LoopNest& kept, const int64_t* start,
                       const LoopNest& reduced, const int64_t* from, int64_t count) {
  int packet = 1;
  if constexpr (kColumnPacket < Source >> 1) {
    if (holds_column_packets(kept, reduced, x + start[0] + from[0], kColumnPacket<Source>))
      packet = kColumnPacket<Source>;
  }
  ReduceSplit split = split_reduction(kept, reduced, count, packet);
  split.kept = NestIndex<2>(split.rows ? kept : columns_of(kept, packet), start);
  split.reduced = NestIndex<1>(reduced, from);
  return split;
}

/// Reduces the numbers at `x`, which are on `device`. Usually this is one launch, or two where
/// there are few results; more where the offsets of scattered elements need more than 32 bits.
template <class Math, class Source, class Target>
void launch_reduction(const Target& target, Source x, const ReduceNests& nests, Device device) {
  using Partial = typename Math::Partial;
  if (nests.outputs == 0) return;
  const Stream stream = current_stream(device);
  each_indexable_part(nests.kept, [&](const LoopNest& kept, const int64_t* start) {
    std::vector<ReduceSplit> splits;
    int64_t chunks = 0;
    each_indexable_part(nests.reduced, [&](const LoopNest& reduced, const int64_t* from) {
      const int64_t count = nests.count == 0 ? 0 : reduced.numel();
      splits.push_back(split_part(x, kept, start, reduced, from, count));
      chunks += splits.back().chunks;
    });
    if (chunks == 1)
      return launch_part<Math>(target, static_cast<Partial*>(nullptr), x, splits[0], stream);

    const int64_t outputs = kept.numel();
    const int64_t bytes = chunks * outputs * static_cast<int64_t>(sizeof(Partial));
    const Tensor room = empty({bytes}, {.dtype = kU8, .device = device});
    Partial* const parts = static_cast<Partial*>(room.raw_data());
    Partial* to = parts;
    for (const ReduceSplit& split : splits) {
      launch_part<Math>(target, to, x, split, stream);
      to += split.chunks * outputs;
    }
    const unsigned width = kReduceBlock / join_rows(chunks);
    const dim3 grid(static_cast<unsigned>(ceil_div(outputs, width)));
    launch_dependent(join_parts_kernel<Math, Target>, grid, dim3(kReduceBlock), 0, stream, target,
                     parts, NestIndex<2>(kept, start), outputs, chunks, width);
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
}

}  // namespace lathe::cuda
