// The frame of the kernels that update parameters: whether a step may change anything, what a block
// works on, and how an update's items become launches. For .cu files.
#pragma once

#include <algorithm>
#include <span>
#include <type_traits>

#include "lathe/core/gpu/dependent_launch.cuh"
#include "lathe/core/gpu/device_fault.h"
#include "lathe/core/gpu/packet.cuh"
#include "lathe/core/visit.h"
#include "lathe/optim/kernels/array_table.cuh"
#include "lathe/optim/kernels/update_math.h"
#include "lathe/optim/update.h"

namespace lathe::optim::cuda {

using ::lathe::cuda::holds_packets;
using ::lathe::cuda::Packet;

/// What a rule touches besides its buffers: reads and writes the parameter (kParam), reads the
/// gradient (kGradient), writes its buffers (kBuffersChange). Rules specialise it.
template <class Rule>
struct Touches {
  static constexpr bool kParam = true, kGradient = true, kBuffersChange = true;
};

/// A rule for parameters of the half type T that works on their masters, its last buffer.
template <class T, class R>
struct WithMaster {
  static constexpr int kBuffers = R::kBuffers + 1;
  using C = ComputeType<T>;
  R rule;
  LATHE_HD C operator()(C p, C g, C* b) const {
    C& master = b[R::kBuffers];
    return master = rule(master_value(T(p), master), g, b);
  }
};

/// What an update of f32 parameters reads and writes in half (UpdateItem); kF32: nothing.
struct HalfSide {
  DType grad = kF32, copy_type = kF32;
  void* copy = nullptr;
};

/// V neighbours of type `From` as numbers of the arithmetic.
template <class From, class C, int V>
__device__ Packet<C, V> load_as(const void* from, int64_t i) {
  const auto packet = *reinterpret_cast<const Packet<From, V>*>(static_cast<const From*>(from) + i);
  Packet<C, V> out;
  for (int v = 0; v < V; ++v) out.v[v] = C(packet.v[v]);
  return out;
}

/// Gradients of parameters of type T.
template <class T, int V>
__device__ Packet<ComputeType<T>, V> load_gradient(const void* from, int64_t i, DType half) {
  using C = ComputeType<T>;
  if constexpr (std::is_same_v<T, float>) {
    if (half == kF16) return load_as<Half, C, V>(from, i);
    if (half == kBF16) return load_as<BFloat16, C, V>(from, i);
  }
  return load_as<T, C, V>(from, i);
}

template <class To, int V>
__device__ void store_rounded(void* to, int64_t i, const Packet<float, V>& p) {
  Packet<To, V> out;
  for (int v = 0; v < V; ++v) out.v[v] = To(p.v[v]);
  *reinterpret_cast<Packet<To, V>*>(static_cast<To*>(to) + i) = out;
}

/// Loads, updates and stores V neighbouring elements of all arrays, from element i on.
template <int V, class T, class Rule, int kArrays>
__device__ void update_packet(const ArrayItem<kArrays>& item, int64_t i, const Rule& rule,
                              const GradFactor<ComputeType<T>>& factor, const HalfSide& half) {
  using C = ComputeType<T>;
  using Does = Touches<Rule>;
  constexpr int kBuffers = Rule::kBuffers;
  const auto param = [&]() -> Packet<T, V>& {
    return *reinterpret_cast<Packet<T, V>*>(static_cast<T*>(item.array[0]) + i);
  };
  Packet<T, V> p = {};
  if constexpr (Does::kParam) p = param();
  Packet<C, V> g = {};
  if constexpr (Does::kGradient) g = load_gradient<T, V>(item.array[1], i, half.grad);
  Packet<C, V> b[kBuffers + 1];
  for (int k = 0; k < kBuffers; ++k) {
    b[k] = *reinterpret_cast<const Packet<C, V>*>(static_cast<const C*>(item.array[2 + k]) + i);
  }
  for (int v = 0; v < V; ++v) {
    C element[kBuffers + 1];
    for (int k = 0; k < kBuffers; ++k) element[k] = b[k].v[v];
    p.v[v] = T(rule(C(p.v[v]), factor(g.v[v]), element));
    for (int k = 0; k < kBuffers; ++k) b[k].v[v] = element[k];
  }
  if constexpr (Does::kParam) param() = p;
  if constexpr (Does::kParam && std::is_same_v<T, float>) {
    if (half.copy_type == kF16) store_rounded<Half>(half.copy, i, p);
    if (half.copy_type == kBF16) store_rounded<BFloat16>(half.copy, i, p);
  }
  for (int k = 0; k < (Does::kBuffersChange ? kBuffers : 0); ++k) {
    *reinterpret_cast<Packet<C, V>*>(static_cast<C*>(item.array[2 + k]) + i) = b[k];
  }
}

/// Calls f(std::integral_constant<int, V>, i) for packets of V neighbours, from element i on, that
/// cover the block's chunk of one parameter: 16 bytes of buffer at a time, or single elements if
/// one of the arrays is not aligned to that. A half copy always is: it has memory of its own.
template <class T, int kBuffers, int kArrays, class F>
__device__ void for_item_packets(const ArrayItem<kArrays>& item, const Chunk& chunk, F f) {
  using C = ComputeType<T>;
  constexpr int V = 16 / sizeof(C);
  bool aligned = holds_packets<V>(static_cast<const T*>(item.array[0])) &&
                 holds_packets<V>(static_cast<const T*>(item.array[1]));
  for (int k = 0; k < kBuffers; ++k) {
    aligned = aligned && holds_packets<V>(static_cast<const C*>(item.array[2 + k]));
  }
  // All chunks begin at multiples of 4096, so the alignment of the array is enough.
  const int64_t whole = aligned ? chunk.end - chunk.end % V : chunk.begin;
  for (int64_t i = chunk.begin + threadIdx.x * V; i < whole; i += blockDim.x * V) {
    f(std::integral_constant<int, V>(), i);
  }
  for (int64_t i = whole + threadIdx.x; i < chunk.end; i += blockDim.x) {
    f(std::integral_constant<int, 1>(), i);
  }
}

/// Updates the block's chunk of one parameter.
template <class T, class Rule, int kArrays>
__device__ void update_chunk(const ArrayItem<kArrays>& item, const Chunk& chunk, const Rule& rule,
                             const GradFactor<ComputeType<T>>& factor, const HalfSide& half = {}) {
  for_item_packets<T, Rule::kBuffers>(item, chunk, [&](auto packet, int64_t i) {
    update_packet<decltype(packet)::value, T>(item, i, rule, factor, half);
  });
}

/// Whether a step may change anything: no kernel has found a bad label or index, and no gradient
/// overflowed.
struct Gate {
  const DeviceFault* fault;
  const float* found_inf;  // null: there is no flag
  __device__ bool open() const {
    return fault->raised == 0 && (found_inf == nullptr || *found_inf == 0);
  }
  /// The same answer for all threads of the block, for kernels in which they wait for each other: a
  /// kernel on another stream may note a fault between two reads of the flag.
  __device__ bool open_for_block() const {
    LATHE_SHARED(bool, is_open);
    if (threadIdx.x == 0) is_open = open();
    __syncthreads();
    return is_open;
  }
};

/// The counts of one launch, in the kernel's parameters.
struct CountTable {
  static constexpr int kCapacity = 448;
  int64_t* count[kCapacity];
  int size = 0;
};

inline Gate gate_of(const UpdateItem& item) {
  return {::lathe::cuda::device_fault(item.device), item.found_inf};
}

/// Raises the counts of all items that have one and are not marked as counted. Runs once for all
/// items, before the update.
void count_step(std::span<const UpdateItem> items);

/// Counts the step, then calls update(items, tag) for each run of non-empty items of one kind,
/// which one launch may update. Allocates nothing: see Optimizer::update.
template <class Update>
void for_each_kind(std::span<const UpdateItem> items, const char* op, Update&& update) {
  count_step(items);
  for (auto begin = items.begin(); begin != items.end();) {
    const auto end =
        std::find_if(begin, items.end(), [&](const auto& a) { return a.kind() != begin->kind(); });
    if (begin->n > 0) {
      visit_float(begin->dtype, op,
                  [&](auto tag) { update(std::span<const UpdateItem>(begin, end), tag); });
    }
    begin = end;
  }
}

}  // namespace lathe::optim::cuda
