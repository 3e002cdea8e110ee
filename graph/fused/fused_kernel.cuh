// What the kernels of fused groups are written with (kernel_source.h). Compiled at run time only.
#pragma once

#include <cstdint>

#include "lathe/core/gpu/packet.cuh"
#include "lathe/core/half.h"
#include "lathe/ops/elementwise_kernels/unary_math.h"

namespace lathe::cuda {

/// One number for all elements: in the GPU's memory, or among the kernel's arguments.
template <class T>
struct Number {
  const T* at;
  T value;

  __device__ T get() const { return at != nullptr ? *at : value; }
};

template <int V>
struct Neighbours {};

template <int V, class T>
__device__ Packet<T, V> load_packet(const T* from) {
  return *reinterpret_cast<const Packet<T, V>*>(from);
}

/// Calls run(Neighbours<V>{}, i) for the first `packets` packets of V neighbours, which begin at
/// element i, and run(Neighbours<1>{}, i) for each of the n elements behind them.
template <int V, class Run>
__device__ void each_piece(int64_t n, int64_t packets, const Run& run) {
  const int64_t step = int64_t(gridDim.x) * blockDim.x;
  const int64_t thread = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  for (int64_t i = thread; i < packets; i += step) run(Neighbours<V>{}, i * V);
  for (int64_t i = packets * V + thread; i < n; i += step) run(Neighbours<1>{}, i);
}

}  // namespace lathe::cuda
