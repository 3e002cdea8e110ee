// The layer-wise rules on the GPU. For all parameters of one kind there is a launch that measures
// and one that steps; NovoGrad has one between them, which makes each parameter's rate and second
// moment. The arithmetic is layerwise_math.h, as in the CPU loops. There are no float atomics, so
// the same values give the same bits. Contract: optim/update.h.
#include "lathe/ops/reduce_kernels/block_reduce.cuh"
#include "lathe/optim/kernels/layerwise_math.h"
#include "lathe/optim/kernels/update_frame.cuh"

namespace lathe::optim::cuda {

namespace {

using ::lathe::cuda::block_reduce;
using ::lathe::cuda::Join;

/// A rule of layerwise_math.h, for parameters with or without masters.
template <class R, bool kMaster_>
struct Layer : R {
  static constexpr bool kMaster = kMaster_;

  template <class Numbers>
  LATHE_HD static Layer at(const Numbers& numbers, int64_t t) {
    return {R::at(numbers, t)};
  }
};

/// An item's arrays: parameter, gradient, buffers, then master and number if it has them, count (or
/// null), scratch.
template <class Rule>
constexpr int kLayerArrays = 4 + Rule::kBuffers + Rule::kMaster + Rule::kNumbers;
template <class Rule>
using LayerItem = ArrayItem<kLayerArrays<Rule>>;
template <class Rule>
using LayerTable = ArrayTable<kLayerArrays<Rule>>;

template <class Rule>
__device__ double* scratch_of(const LayerItem<Rule>& item) {
  return static_cast<double*>(item.array[kLayerArrays<Rule> - 1]);
}

/// Makes the rule of an item's step. The step's number is the item's count if it has one, else
/// `step`; the learning rate is that in memory if there is one, else that of `numbers`.
template <class Numbers>
struct MakeLayer {
  Numbers numbers;
  int64_t step;
  const double* lr;

  template <class Rule>
  __device__ Rule rule_of(const LayerItem<Rule>& item) const {
    Numbers current = numbers;
    if (lr != nullptr) current.lr = *lr;
    const auto* count = static_cast<const int64_t*>(item.array[kLayerArrays<Rule> - 2]);
    return Rule::at(current, count == nullptr ? step : *count);
  }
};

/// Measures V neighbouring elements of all arrays, from element i on.
template <int V, class T, class Rule>
__device__ void measure_packet(const LayerItem<Rule>& item, int64_t i, const Rule& rule,
                               const GradFactor<ComputeType<T>>& factor, SquareSums& sums) {
  using C = ComputeType<T>;
  constexpr int kBuffers = Rule::kMeasuresBuffers ? Rule::kBuffers : 0;
  const auto p = *reinterpret_cast<const Packet<T, V>*>(static_cast<const T*>(item.array[0]) + i);
  const auto g = *reinterpret_cast<const Packet<T, V>*>(static_cast<const T*>(item.array[1]) + i);
  Packet<C, V> b[kBuffers + 1];
  for (int k = 0; k < kBuffers; ++k) {
    b[k] = *reinterpret_cast<const Packet<C, V>*>(static_cast<const C*>(item.array[2 + k]) + i);
  }
  Packet<C, V> values;
  for (int v = 0; v < V; ++v) values.v[v] = C(p.v[v]);
  if constexpr (Rule::kMaster) {
    const auto w = *reinterpret_cast<const Packet<C, V>*>(
        static_cast<const C*>(item.array[2 + Rule::kBuffers]) + i);
    for (int v = 0; v < V; ++v) values.v[v] = master_value(p.v[v], w.v[v]);
  }
  for (int v = 0; v < V; ++v) {
    C element[kBuffers + 1];
    for (int k = 0; k < kBuffers; ++k) element[k] = b[k].v[v];
    sums.add(values.v[v], rule.measure(values.v[v], factor(C(g.v[v])), element));
    for (int k = 0; k < kBuffers; ++k) b[k].v[v] = element[k];
  }
  for (int k = 0; k < kBuffers; ++k) {
    *reinterpret_cast<Packet<C, V>*>(static_cast<C*>(item.array[2 + k]) + i) = b[k];
  }
}

// The sums of squares of each chunk, in double: first by thread, then as a tree. One block per
// chunk of 4096 elements of one parameter. Memory bound: reads 2 sizeof(T) bytes per element in
// 16-byte words (LAMB updates its moments here: 16 more in f32, half of them written); meant to
// reach 85 % of the bandwidth of reading (a block's tail is a reduction).
template <class T, class Rule, class Numbers>
__global__ void __launch_bounds__(kChunkThreads)
    layer_norms_kernel(LayerTable<Rule> table, MakeLayer<Numbers> make, Gate gate,
                       const double* grad_factors) {
  LATHE_SHARED(Rule, rule);
  if (!gate.open_for_block()) return;
  const Chunk chunk = chunk_of_block(table);
  const LayerItem<Rule>& item = table.item[chunk.item];
  if (threadIdx.x == 0) rule = make.template rule_of<Rule>(item);
  __syncthreads();
  const auto factor = GradFactor<ComputeType<T>>::of(grad_factors);
  SquareSums sums;
  for_item_packets<T, Rule::kBuffers + Rule::kMaster>(item, chunk, [&](auto packet, int64_t i) {
    measure_packet<decltype(packet)::value, T, Rule>(item, i, rule, factor, sums);
  });
  sums = block_reduce(sums, Join());
  if (threadIdx.x == 0) {
    double* const to = scratch_of<Rule>(item) + 1 + 2 * (chunk.begin / kChunk);
    to[0] = sums.p;
    to[1] = sums.u;
  }
}

/// The sums of squares of the whole item, in thread 0.
template <class Rule>
__device__ SquareSums layer_sums(const LayerItem<Rule>& item) {
  const double* const scratch = scratch_of<Rule>(item);
  SquareSums sums;
  for (int64_t k = threadIdx.x; k < chunks_of(item.n); k += blockDim.x) {
    sums.join({scratch[1 + 2 * k], scratch[2 + 2 * k]});
  }
  return block_reduce(sums, Join());
}

// The rate and the number of each parameter, from the sums of its chunks, one block each: 16 bytes
// per 4096 elements, so bound by the launch.
template <class C, class Rule, class Numbers>
__global__ void __launch_bounds__(kChunkThreads)
    layer_rates_kernel(LayerTable<Rule> table, MakeLayer<Numbers> make, Gate gate) {
  if (!gate.open_for_block()) return;
  const LayerItem<Rule>& item = table.item[blockIdx.x];
  const SquareSums sums = layer_sums<Rule>(item);
  if (threadIdx.x > 0) return;
  C* const number = static_cast<C*>(item.array[2 + Rule::kBuffers + Rule::kMaster]);
  scratch_of<Rule>(item)[0] = make.template rule_of<Rule>(item).rate(sums, number, item.n);
}

/// Rule::step with the rate of its tensor.
template <class C, class Rule>
struct LayerStep {
  static constexpr int kBuffers = Rule::kBuffers;
  Rule rule;
  C rate;
  LATHE_HD C operator()(C p, C g, C* b) const { return rule.step(p, g, b, rate); }
};

}  // namespace

template <class C, class Rule>
struct Touches<LayerStep<C, Rule>> {
  static constexpr bool kParam = true;
  static constexpr bool kGradient = Rule::kStepsByGradient;
  static constexpr bool kBuffersChange = Rule::kStepsByGradient;
};

namespace {

// The step of each element. One block per chunk of 4096 elements; thread 0 makes the rule for its
// block. If the rule keeps no number per tensor, the block works the rate out from the sums of all
// chunks, which saves a launch: 16 bytes from the second-level cache for each of the n / 4096
// chunks (for 10^7 elements 40 KB, beside the 80 KB of memory that the block moves). Memory bound:
// in f32 3 sizeof(T) + 8 bytes per element for LARS, NovoGrad and Adafactor (20), 16 for LAMB,
// which reads its moments and writes the parameter; meant to reach 90 % of the copy bandwidth.
template <class T, class Rule, class Numbers>
__global__ void __launch_bounds__(kChunkThreads)
    layer_step_kernel(LayerTable<Rule> table, MakeLayer<Numbers> make, Gate gate,
                      const double* grad_factors) {
  using C = ComputeType<T>;
  using ItemStep = LayerStep<C, Rule>;
  LATHE_SHARED(ItemStep, rule);
  if (!gate.open_for_block()) return;
  const Chunk chunk = chunk_of_block(table);
  const LayerItem<Rule>& item = table.item[chunk.item];
  SquareSums sums;
  constexpr bool kHasRate = Rule::kNumbers > 0;
  if constexpr (!kHasRate) sums = layer_sums<Rule>(item);
  if (threadIdx.x == 0) {
    const Rule made = make.template rule_of<Rule>(item);
    const double rate = kHasRate ? scratch_of<Rule>(item)[0] : made.rate(sums, nullptr, item.n);
    rule = {made, static_cast<C>(rate)};
  }
  __syncthreads();
  const auto factor = GradFactor<C>::of(grad_factors);
  if constexpr (Rule::kMaster) {
    update_chunk<T>(item, chunk, WithMaster<T, LayerStep<C, Rule>>{rule}, factor);
  } else {
    update_chunk<T>(item, chunk, rule, factor);
  }
}

/// Updates items of one kind.
template <class T, class Rule, class Numbers>
void update_kind(std::span<const UpdateItem> items, const Numbers& numbers) {
  constexpr int kArrays = kLayerArrays<Rule>;
  const UpdateItem& front = items.front();
  const Stream stream = current_stream(front.device);
  const auto item_at = [&](size_t i) {
    const UpdateItem& item = items[i];
    LayerItem<Rule> entry{item.n, {item.param, const_cast<void*>(item.grad)}};
    int at = 2;
    for (size_t b = 0; b < Rule::kBuffers; ++b) entry.array[at++] = item.buffers[b];
    if constexpr (Rule::kMaster) entry.array[at++] = item.master;
    if constexpr (Rule::kNumbers > 0) entry.array[at++] = item.buffers[size_t{Rule::kBuffers}];
    entry.array[at++] = item.count;
    entry.array[at] = item.scratch;
    return entry;
  };
  for_each_table<kArrays>(items.size(), item_at, [&](const LayerTable<Rule>& table) {
    const Gate gate = gate_of(front);
    const MakeLayer<Numbers> make{numbers, front.step, front.lr};
    launch(layer_norms_kernel<T, Rule, Numbers>, dim3(table.blocks), dim3(kChunkThreads), 0, stream,
           table, make, gate, front.grad_factors);
    LATHE_CUDA_CHECK(cudaGetLastError());
    if constexpr (Rule::kNumbers > 0) {
      launch(layer_rates_kernel<ComputeType<T>, Rule, Numbers>,
             dim3(static_cast<unsigned>(table.count)), dim3(kChunkThreads), 0, stream, table, make,
             gate);
      LATHE_CUDA_CHECK(cudaGetLastError());
    }
    launch(layer_step_kernel<T, Rule, Numbers>, dim3(table.blocks), dim3(kChunkThreads), 0, stream,
           table, make, gate, front.grad_factors);
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
}

/// Updates items of any kinds.
template <template <class> class RuleOf, class Numbers>
void update(std::span<const UpdateItem> items, const char* op, const Numbers& numbers) {
  for_each_kind(items, op, [&](std::span<const UpdateItem> kind, auto tag) {
    using T = typename decltype(tag)::type;
    using R = RuleOf<ComputeType<T>>;
    if constexpr (is_half(dtype_of<T>)) {
      if (kind.front().master != nullptr) return update_kind<T, Layer<R, true>>(kind, numbers);
    }
    update_kind<T, Layer<R, false>>(kind, numbers);
  });
}

}  // namespace

void lars_update(std::span<const UpdateItem> items, const LARSOptions& o) {
  update<LarsMath>(items, "LARS", o);
}
void lamb_update(std::span<const UpdateItem> items, const LAMBOptions& o) {
  update<LambMath>(items, "LAMB", o);
}
void novograd_update(std::span<const UpdateItem> items, const NovoGradOptions& o) {
  update<NovogradMath>(items, "NovoGrad", o);
}
void adafactor_update(std::span<const UpdateItem> items, const AdafactorNumbers& o) {
  update<AdafactorMath>(items, "Adafactor", o);
}

}  // namespace lathe::optim::cuda
