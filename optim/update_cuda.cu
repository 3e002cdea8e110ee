// The optimisers' updates on the GPU: many parameters in one launch. The arithmetic is that of
// update_math.h, which the CPU loop uses too.
#include <algorithm>

#include "lathe/core/device_fault.h"
#include "lathe/core/launch.h"
#include "lathe/core/packet.h"
#include "lathe/core/visit.h"
#include "lathe/optim/array_table.h"
#include "lathe/optim/update.h"
#include "lathe/optim/update_math.h"

namespace lathe::optim::cuda {

namespace {

using ::lathe::cuda::holds_packets;
using ::lathe::cuda::Packet;

// The rules as functions of one element and its kBuffers buffers: b[] holds those that are used, in
// the order of update.h.
template <class C>
struct SgdPlain {
  static constexpr int kBuffers = 0;
  SgdMath<C> math;
  LATHE_HD C operator()(C p, C g, C*) const { return math.plain(p, g); }
};
template <class C>
struct SgdFirst {
  static constexpr int kBuffers = 1;
  SgdMath<C> math;
  LATHE_HD C operator()(C p, C g, C* b) const { return math.first(p, g, b[0]); }
};
template <class C>
struct SgdLater {
  static constexpr int kBuffers = 1;
  SgdMath<C> math;
  LATHE_HD C operator()(C p, C g, C* b) const { return math.later(p, g, b[0]); }
};
template <class C>
struct Adam {
  static constexpr int kBuffers = 2;
  AdamMath<C> math;
  LATHE_HD C operator()(C p, C g, C* b) const { return math.adam(p, g, b[0], b[1]); }
};
template <class C>
struct AmsGrad {
  static constexpr int kBuffers = 3;
  AdamMath<C> math;
  LATHE_HD C operator()(C p, C g, C* b) const { return math.amsgrad(p, g, b[0], b[1], b[2]); }
};
template <class C, bool kMomentum, bool kCentered>
struct Rmsprop {
  static constexpr int kBuffers = 1 + kMomentum + kCentered;
  RmspropMath<C> math;
  LATHE_HD C operator()(C p, C g, C* b) const {
    g = math.decayed(p, g);
    const C square = math.mean_square(g, b[0]);
    C d;
    if constexpr (kCentered) {
      d = math.centred_divisor(g, square, b[kBuffers - 1]);
    } else {
      d = math.divisor(square);
    }
    if constexpr (kMomentum) return math.stepped(p, g, d, b[1]);
    return math.stepped(p, g, d);
  }
};

/// V neighbours of all arrays from element i on: loaded, updated, stored.
template <int V, class T, class Rule, int kArrays>
__device__ void update_packet(const ArrayItem<kArrays>& item, int64_t i, const Rule& rule) {
  using C = ComputeType<T>;
  constexpr int kBuffers = Rule::kBuffers;
  auto* const to = reinterpret_cast<Packet<T, V>*>(static_cast<T*>(item.array[0]) + i);
  Packet<T, V> p = *to;
  const auto g = *reinterpret_cast<const Packet<T, V>*>(static_cast<const T*>(item.array[1]) + i);
  Packet<C, V> b[kBuffers + 1];
  for (int k = 0; k < kBuffers; ++k) {
    b[k] = *reinterpret_cast<const Packet<C, V>*>(static_cast<const C*>(item.array[2 + k]) + i);
  }
  for (int v = 0; v < V; ++v) {
    C element[kBuffers + 1];
    for (int k = 0; k < kBuffers; ++k) element[k] = b[k].v[v];
    p.v[v] = T(rule(C(p.v[v]), C(g.v[v]), element));
    for (int k = 0; k < kBuffers; ++k) b[k].v[v] = element[k];
  }
  *to = p;
  for (int k = 0; k < kBuffers; ++k) {
    *reinterpret_cast<Packet<C, V>*>(static_cast<C*>(item.array[2 + k]) + i) = b[k];
  }
}

// One block per chunk of 4096 elements of one parameter; the table in the kernel's parameters says
// which. Each thread takes 16 bytes of buffer at a time, or single elements where an array is not
// aligned to that. While the fault record is raised, a bad label or index has spoilt the gradients,
// and nothing is changed. Memory bound: 2 sizeof(T) + sizeof(gradient) + 2 kBuffers sizeof(C) bytes
// per element (Adam in f32: 28), meant to reach 90 % of the copy bandwidth for a network of more
// than 10^7 parameters: every byte is touched once, in whole 16-byte words. Small networks are
// bound by the launch.
template <class T, class Rule>
__global__ void __launch_bounds__(kChunkThreads)
    update_kernel(ArrayTable<2 + Rule::kBuffers> table, Rule rule, const DeviceFault* fault) {
  using C = ComputeType<T>;
  constexpr int V = 16 / sizeof(C);
  if (fault->raised != 0) return;
  const Chunk chunk = chunk_of_block(table);
  const auto item = table.item[chunk.item];
  bool aligned = holds_packets<V>(static_cast<const T*>(item.array[0])) &&
                 holds_packets<V>(static_cast<const T*>(item.array[1]));
  for (int k = 0; k < Rule::kBuffers; ++k) {
    aligned = aligned && holds_packets<V>(static_cast<const C*>(item.array[2 + k]));
  }
  // chunks begin at multiples of 4096
  const int64_t whole = aligned ? chunk.end - chunk.end % V : chunk.begin;
  for (int64_t i = chunk.begin + threadIdx.x * V; i < whole; i += blockDim.x * V) {
    update_packet<V, T>(item, i, rule);
  }
  for (int64_t i = whole + threadIdx.x; i < chunk.end; i += blockDim.x) {
    update_packet<1, T>(item, i, rule);
  }
}

/// Updates items of one dtype and one step with one rule.
template <class T, class Rule>
void run(std::span<const UpdateItem> items, const Rule& rule) {
  constexpr int kArrays = 2 + Rule::kBuffers;
  const auto arrays_of = [&](size_t i) {
    ArrayItem<kArrays> entry{items[i].n, {items[i].param, const_cast<void*>(items[i].grad)}};
    int at = 2;
    for (void* buffer : items[i].buffers) {
      if (buffer != nullptr && at < kArrays) entry.array[at++] = buffer;
    }
    return entry;
  };
  const Device device = items.front().device;
  const DeviceFault* fault = ::lathe::cuda::device_fault(device);
  for_each_table<kArrays>(items.size(), arrays_of, [&](const ArrayTable<kArrays>& table) {
    launch(update_kernel<T, Rule>, dim3(table.blocks), dim3(kChunkThreads), 0,
           current_stream(device), table, rule, fault);
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
}

/// Calls update(items, tag) for each run of items that one launch may update: all of one kind, and
/// with memory. Allocates nothing: see Optimizer::update.
template <class Update>
void for_each_kind(std::span<const UpdateItem> items, const char* op, Update&& update) {
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

}  // namespace

void sgd_update(std::span<const UpdateItem> items, const SgdNumbers& o) {
  for_each_kind(items, "SGD", [&](std::span<const UpdateItem> kind, auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const auto math = SgdMath<C>::of(o.lr, o.momentum, o.dampening, o.weight_decay, o.nesterov);
    if (kind.front().buffers[0] == nullptr) return run<T>(kind, SgdPlain<C>{math});
    if (kind.front().fresh) return run<T>(kind, SgdFirst<C>{math});
    run<T>(kind, SgdLater<C>{math});
  });
}

void adam_update(std::span<const UpdateItem> items, const AdamNumbers& o) {
  for_each_kind(items, "Adam", [&](std::span<const UpdateItem> kind, auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const auto math = AdamMath<C>::at_step(kind.front().step, o.lr, o.beta1, o.beta2, o.eps,
                                           o.weight_decay, o.decoupled);
    if (o.amsgrad) return run<T>(kind, AmsGrad<C>{math});
    run<T>(kind, Adam<C>{math});
  });
}

void rmsprop_update(std::span<const UpdateItem> items, const RmspropNumbers& o) {
  for_each_kind(items, "RMSprop", [&](std::span<const UpdateItem> kind, auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const auto math = RmspropMath<C>::of(o.lr, o.alpha, o.eps, o.weight_decay, o.momentum);
    const bool momentum = kind.front().buffers[1] != nullptr;
    if (o.centered && momentum) return run<T>(kind, Rmsprop<C, true, true>{math});
    if (o.centered) return run<T>(kind, Rmsprop<C, false, true>{math});
    if (momentum) return run<T>(kind, Rmsprop<C, true, false>{math});
    run<T>(kind, Rmsprop<C, false, false>{math});
  });
}

}  // namespace lathe::optim::cuda
