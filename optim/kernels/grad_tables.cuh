// Many gradients in few kernel launches, for any dtypes and layouts. For .cu files.
#pragma once

#include <vector>

#include "lathe/core/copy.h"
#include "lathe/core/dense.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/core/gpu/packet.cuh"
#include "lathe/core/visit.h"
#include "lathe/optim/kernels/array_table.cuh"

namespace lathe::optim {

/// Calls f(Packet*) for packets that cover the chunk of x, shared among the block's threads: 16
/// bytes each if x is aligned to that, otherwise single elements.
template <class T, class F>
__device__ void for_packets(T* x, const Chunk& chunk, F f) {
  constexpr int V = 16 / sizeof(T);
  const int64_t whole =
      ::lathe::cuda::holds_packets<V>(x) ? chunk.end - chunk.end % V : chunk.begin;
  for (int64_t i = chunk.begin + threadIdx.x * V; i < whole; i += blockDim.x * V) {
    f(reinterpret_cast<::lathe::cuda::Packet<T, V>*>(x + i));
  }
  for (int64_t i = whole + threadIdx.x; i < chunk.end; i += blockDim.x) {
    f(reinterpret_cast<::lathe::cuda::Packet<T, 1>*>(x + i));
  }
}

/// The gradients in dense memory: those that are not dense are copied, empty ones left out.
inline Tensors dense_grads(const Tensors& grads) {
  Tensors all;
  for (const Tensor& g : grads) {
    if (g.numel() == 0) continue;
    if (is_dense(g)) {
      all.push_back(g);
      continue;
    }
    const Tensor copy = empty(g.shape(), {.dtype = g.dtype(), .device = g.device()});
    copy_values(copy, g);
    all.push_back(copy);
  }
  return all;
}

/// Calls launch_table(tag, table) with tables of gradients of one dtype.
template <class Launch>
void for_each_dtype(const char* op, const Tensors& grads, Launch&& launch_table) {
  for (const DType dtype : {kF32, kF16, kBF16, kF64}) {
    std::vector<ArrayItem<1>> items;
    for (const Tensor& g : grads) {
      if (g.dtype() == dtype) items.push_back({g.numel(), {g.raw_data()}});
    }
    visit_float(dtype, op, [&](auto tag) {
      for_each_table<1>(
          items.size(), [&](size_t i) { return items[i]; },
          [&](const ArrayTable<1>& table) { launch_table(tag, table); });
    });
  }
}

/// Calls launch_table(tag, table) with tables that together hold all gradients. Writes the changed
/// values back to gradients that are not dense in memory.
template <class Launch>
void change_dense(const char* op, const Tensors& grads, Launch&& launch_table) {
  const Tensors copies = dense_grads(grads);
  for_each_dtype(op, copies, launch_table);
  size_t at = 0;
  for (const Tensor& g : grads) {
    if (g.numel() == 0) continue;
    if (!copies[at].is_same(g)) copy_values(g, copies[at]);
    ++at;
  }
}

}  // namespace lathe::optim
