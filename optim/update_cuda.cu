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
struct SgdMomentum {
  static constexpr int kBuffers = 1;
  SgdMath<C> math;
  bool first;
  LATHE_HD C operator()(C p, C g, C* b) const {
    return first ? math.first(p, g, b[0]) : math.later(p, g, b[0]);
  }
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

// What makes the rule of step t: on the host, or on the device where only that knows t.
template <class R>
struct Always {
  using Rule = R;
  Rule rule;
  LATHE_HD Rule at(int64_t) const { return rule; }
};
template <class C>
struct MakeSgd {
  using Rule = SgdMomentum<C>;
  SgdMath<C> math;
  LATHE_HD Rule at(int64_t t) const { return {math, t == 1}; }
};
template <class C, template <class> class R>
struct MakeAdam {
  using Rule = R<C>;
  AdamNumbers o;
  LATHE_HD Rule at(int64_t t) const {
    return {AdamMath<C>::at_step(t, o.lr, o.beta1, o.beta2, o.eps, o.weight_decay, o.decoupled)};
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

/// The block's chunk of one parameter, updated. Each thread takes 16 bytes of buffer at a time, or
/// single elements where an array is not aligned to that.
template <class T, class Rule, int kArrays>
__device__ void update_chunk(const ArrayItem<kArrays>& item, const Chunk& chunk, const Rule& rule) {
  using C = ComputeType<T>;
  constexpr int V = 16 / sizeof(C);
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

/// Whether a step may change anything: a bad label or index has not spoilt the gradients, and none
/// of them overflowed.
struct Gate {
  const DeviceFault* fault;
  const float* found_inf;  // null: not asked
  __device__ bool open() const {
    return fault->raised == 0 && (found_inf == nullptr || *found_inf == 0);
  }
};

// One block per chunk of 4096 elements of one parameter; the table in the kernel's parameters says
// which. Memory bound: 2 sizeof(T) + sizeof(gradient) + 2 kBuffers sizeof(C) bytes per element
// (Adam in f32: 28), meant to reach 90 % of the copy bandwidth for a network of more than 10^7
// parameters: every byte is touched once, in whole 16-byte words. Small networks are bound by the
// launch.
template <class T, class Rule>
__global__ void __launch_bounds__(kChunkThreads)
    update_kernel(ArrayTable<2 + Rule::kBuffers> table, Rule rule, Gate gate) {
  if (!gate.open()) return;
  const Chunk chunk = chunk_of_block(table);
  update_chunk<T>(table.item[chunk.item], chunk, rule);
}

// The same where the number of the step is known on the device only: the last array of an item is
// the parameter's count of updates, this one included. One thread makes the rule from it for its
// block (Adam: two powers in double, about a microsecond, while other blocks move memory).
template <class T, class Make, class Rule = typename Make::Rule>
__global__ void __launch_bounds__(kChunkThreads)
    counted_update_kernel(ArrayTable<3 + Rule::kBuffers> table, Make make, Gate gate) {
  __shared__ Rule rule;
  if (!gate.open()) return;
  const Chunk chunk = chunk_of_block(table);
  const auto& item = table.item[chunk.item];
  if (threadIdx.x == 0) {
    rule = make.at(*static_cast<const int64_t*>(item.array[2 + Rule::kBuffers]));
  }
  __syncthreads();
  update_chunk<T>(item, chunk, rule);
}

/// The counts of one launch, in the kernel's parameters.
struct CountTable {
  static constexpr int kCapacity = 448;
  int64_t* count[kCapacity];
};

// One more update of each parameter, one thread each, unless the step is skipped. A few hundred
// bytes: bound by the launch.
__global__ void __launch_bounds__(CountTable::kCapacity)
    count_step_kernel(CountTable table, int size, Gate gate) {
  const int i = static_cast<int>(threadIdx.x);
  if (i < size && gate.open()) *table.count[i] += 1;
}

Gate gate_of(const UpdateItem& item) {
  return {::lathe::cuda::device_fault(item.device), item.found_inf};
}

/// Raises the counts of all items that have one; for all at once, before the update.
void count_step(std::span<const UpdateItem> items) {
  const UpdateItem& front = items.front();
  CountTable table;
  int size = 0;
  const auto flush = [&] {
    if (size == 0) return;
    launch(count_step_kernel, dim3(1), dim3(CountTable::kCapacity), 0, current_stream(front.device),
           table, size, gate_of(front));
    LATHE_CUDA_CHECK(cudaGetLastError());
    size = 0;
  };
  for (const UpdateItem& item : items) {
    if (item.count == nullptr) continue;
    if (size == CountTable::kCapacity) flush();
    table.count[size++] = item.count;
  }
  flush();
}

/// Calls launch_table(table) with the arrays of all items; kExtra more of each are null.
template <int kBuffers, int kExtra, class Launch>
void for_each_update_table(std::span<const UpdateItem> items, Launch&& launch_table) {
  constexpr int kArrays = 2 + kBuffers + kExtra;
  for_each_table<kArrays>(
      items.size(),
      [&](size_t i) {
        ArrayItem<kArrays> entry{items[i].n, {items[i].param, const_cast<void*>(items[i].grad)}};
        int at = 2;
        for (void* buffer : items[i].buffers) {
          if (buffer != nullptr && at < 2 + kBuffers) entry.array[at++] = buffer;
        }
        if constexpr (kExtra > 0) entry.array[kArrays - 1] = items[i].count;
        return entry;
      },
      launch_table);
}

/// Updates items of one kind. `make.at(t)` is the rule of step t.
template <class T, class Make>
void run(std::span<const UpdateItem> items, const Make& make) {
  using Rule = typename Make::Rule;
  const UpdateItem& front = items.front();
  const Stream stream = current_stream(front.device);
  if (front.count != nullptr) {
    for_each_update_table<Rule::kBuffers, 1>(items, [&](const auto& table) {
      launch(counted_update_kernel<T, Make>, dim3(table.blocks), dim3(kChunkThreads), 0, stream,
             table, make, gate_of(front));
      LATHE_CUDA_CHECK(cudaGetLastError());
    });
    return;
  }
  for_each_update_table<Rule::kBuffers, 0>(items, [&](const auto& table) {
    launch(update_kernel<T, Rule>, dim3(table.blocks), dim3(kChunkThreads), 0, stream, table,
           make.at(front.step), gate_of(front));
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
}

/// Counts the step, then calls update(items, tag) for each run of items that one launch may update:
/// all of one kind, and with memory. Allocates nothing: see Optimizer::update.
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

}  // namespace

void sgd_update(std::span<const UpdateItem> items, const SgdNumbers& o) {
  for_each_kind(items, "SGD", [&](std::span<const UpdateItem> kind, auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const auto math = SgdMath<C>::of(o.lr, o.momentum, o.dampening, o.weight_decay, o.nesterov);
    if (kind.front().buffers[0] == nullptr) return run<T>(kind, Always<SgdPlain<C>>{{math}});
    run<T>(kind, MakeSgd<C>{math});
  });
}

void adam_update(std::span<const UpdateItem> items, const AdamNumbers& o) {
  for_each_kind(items, "Adam", [&](std::span<const UpdateItem> kind, auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    if (o.amsgrad) return run<T>(kind, MakeAdam<C, AmsGrad>{o});
    run<T>(kind, MakeAdam<C, Adam>{o});
  });
}

void rmsprop_update(std::span<const UpdateItem> items, const RmspropNumbers& o) {
  for_each_kind(items, "RMSprop", [&](std::span<const UpdateItem> kind, auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const auto math = RmspropMath<C>::of(o.lr, o.alpha, o.eps, o.weight_decay, o.momentum);
    const bool momentum = kind.front().buffers[1] != nullptr;
    if (o.centered && momentum) return run<T>(kind, Always<Rmsprop<C, true, true>>{{math}});
    if (o.centered) return run<T>(kind, Always<Rmsprop<C, false, true>>{{math}});
    if (momentum) return run<T>(kind, Always<Rmsprop<C, true, false>>{{math}});
    run<T>(kind, Always<Rmsprop<C, false, false>>{{math}});
  });
}

}  // namespace lathe::optim::cuda
