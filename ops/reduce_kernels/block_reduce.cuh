// Reductions inside a kernel: of the lanes of a warp, of the threads of a block, of the columns of
// a block. For .cu files only.
//
// `combine(a, b)` gives the reduction of both. It must be associative and commutative but for
// rounding; it needs no neutral element. The order of the combinations is fixed, so the same values
// give the same bits every time. T is any trivial type. Blocks are one-dimensional, and their size
// is a multiple of 32. All threads of the block (for a warp: all its lanes) must make the call.
#pragma once

#include <cstdint>

#include "lathe/core/gpu/launch.h"

namespace lathe::cuda {

inline constexpr unsigned kWarpSize = 32;
inline constexpr unsigned kAllLanes = 0xffffffffu;
inline constexpr unsigned kMostWarps = 1024 / kWarpSize;

/// The combination for a simple reduction of reduce_math.h: Step<Sum<float>> adds.
template <class Op>
struct Step {
  using Value = typename Op::Value;
  __device__ Value operator()(Value a, Value b) const {
    Op::step(a, b);
    return a;
  }
};

/// The combination for partial results that have a member join: Moments, ScaledSum.
struct Join {
  template <class T>
  __device__ T operator()(T a, const T& b) const {
    a.join(b);
    return a;
  }
};

namespace block_reduce_detail {

/// Applies `move` to each word of `value`, because shuffles carry 4 or 8 bytes.
template <class T, class Move>
__device__ T each_word(const T& value, Move move) {
  if constexpr (sizeof(T) % sizeof(uint64_t) == 0) {
    unsigned long long words[sizeof(T) / sizeof(uint64_t)];
    __builtin_memcpy(words, &value, sizeof(T));
    for (unsigned long long& word : words) word = move(word);
    T result;
    __builtin_memcpy(&result, words, sizeof(T));
    return result;
  } else {
    unsigned words[(sizeof(T) + 3) / 4] = {};
    __builtin_memcpy(words, &value, sizeof(T));
    for (unsigned& word : words) word = move(word);
    T result;
    __builtin_memcpy(&result, words, sizeof(T));
    return result;
  }
}

}  // namespace block_reduce_detail

/// The value of the lane `delta` above; meaningless in the topmost `delta` lanes.
template <class T>
__device__ T shuffle_down(const T& value, unsigned delta) {
  return block_reduce_detail::each_word(
      value, [delta](auto word) { return __shfl_down_sync(kAllLanes, word, delta); });
}

/// The value of the lane `delta` below; meaningless in the lowest `delta` lanes.
template <class T>
__device__ T shuffle_up(const T& value, unsigned delta) {
  return block_reduce_detail::each_word(
      value, [delta](auto word) { return __shfl_up_sync(kAllLanes, word, delta); });
}

/// The value of lane `source`, in all lanes.
template <class T>
__device__ T shuffle(const T& value, unsigned source) {
  return block_reduce_detail::each_word(value, [source](auto word) {
    return __shfl_sync(kAllLanes, word, static_cast<int>(source));
  });
}

/// Reduces each group of `lanes` adjacent lanes (a power of two, at most a warp). The first lane of
/// the group gets the result.
template <class T, class Combine>
__device__ T warp_reduce(T value, Combine combine, unsigned lanes = kWarpSize) {
  for (unsigned step = lanes / 2; step > 0; step /= 2) {
    value = combine(value, shuffle_down(value, step));
  }
  return value;
}

/// The same, but all lanes of the group get the result.
template <class T, class Combine>
__device__ T warp_reduce_all(T value, Combine combine, unsigned lanes = kWarpSize) {
  return shuffle(warp_reduce(value, combine, lanes), threadIdx.x % kWarpSize / lanes * lanes);
}

/// Reduces the block; thread 0 gets the result. Shuffles reduce each warp, and the first warp
/// reduces the results of all.
template <class T, class Combine>
__device__ T block_reduce(T value, Combine combine) {
  LATHE_SHARED(T[kMostWarps], parts);
  const unsigned lane = threadIdx.x % kWarpSize, warp = threadIdx.x / kWarpSize;
  const unsigned warps = blockDim.x / kWarpSize;
  value = warp_reduce(value, combine);
  __syncthreads();  // until all have read the `parts` of an earlier call
  if (lane == 0) parts[warp] = value;
  __syncthreads();
  if (warp > 0) return value;
  value = parts[lane < warps ? lane : 0];
  for (unsigned step = kMostWarps / 2; step > 0; step /= 2) {
    const T other = shuffle_down(value, step);
    if (lane + step < warps) value = combine(value, other);
  }
  return value;
}

/// The same, but all threads get the result.
template <class T, class Combine>
__device__ T block_reduce_all(T value, Combine combine) {
  LATHE_SHARED(T, total);
  value = block_reduce(value, combine);  // its barriers wait for readers of an earlier `total`, too
  if (threadIdx.x == 0) total = value;
  __syncthreads();
  return total;
}

/// Reduces the columns of the block, seen as a matrix with `width` columns: thread t is in column
/// t % width, and thread t < width gets the result of column t. kThreads = blockDim.x and width are
/// powers of two. Shuffles reduce the rows within each warp, shared memory the rows that are left.
template <unsigned kThreads, class T, class Combine>
__device__ T block_reduce_columns(T value, Combine combine, unsigned width) {
  LATHE_SHARED(T[kThreads], parts);
  const unsigned t = threadIdx.x, lane = t % kWarpSize;
  for (unsigned step = kWarpSize / 2; step >= width; step /= 2) {
    value = combine(value, shuffle_down(value, step));
  }
  const unsigned lanes = width < kWarpSize ? width : kWarpSize, left = kThreads / kWarpSize * lanes;
  __syncthreads();  // until all have read the `parts` of an earlier call
  if (lane < lanes) parts[t / kWarpSize * lanes + lane] = value;
  __syncthreads();
  if (t < left) value = parts[t];
  for (unsigned half = left / 2; half >= width; half /= 2) {
    if (t < half) {
      value = combine(value, parts[t + half]);
      parts[t] = value;
    }
    __syncthreads();
  }
  return value;
}

/// The same, but all threads of a column get its result.
template <unsigned kThreads, class T, class Combine>
__device__ T block_reduce_columns_all(T value, Combine combine, unsigned width) {
  LATHE_SHARED(T[kThreads], totals);
  value = block_reduce_columns<kThreads>(value, combine, width);
  if (threadIdx.x < width) totals[threadIdx.x] = value;
  __syncthreads();
  return totals[threadIdx.x % width];
}

}  // namespace lathe::cuda
