// Norms and overflow of gradients on the GPU, and the start of a step that depends on them. The
// host waits for none of these values.
#include "lathe/ops/reduce_kernels/block_reduce.cuh"
#include "lathe/optim/check_grads.h"
#include "lathe/optim/clip_grad.h"
#include "lathe/optim/kernels/clip_math.h"
#include "lathe/optim/kernels/grad_tables.cuh"
#include "lathe/optim/kernels/update_frame.cuh"
#include "lathe/optim/loss_scale_math.h"

namespace lathe::optim::cuda {

namespace {

using ::lathe::cuda::block_reduce;

/// Threads of the block that adds all parts up: enough to raise all counts of a launch, too.
constexpr unsigned kTotalThreads = 512;
static_assert(CountTable::kCapacity <= kTotalThreads);

struct JoinSums {
  double p;
  __device__ double operator()(double a, double b) const {
    NormSum sum{p, a};
    sum.join({p, b});
    return sum.sum;
  }
};
struct Either {
  __device__ int operator()(int a, int b) const { return a | b; }
};

// sums[block] = the chunk's part of the p-norm of x / scale, without the root. It is summed in
// double, first by thread, then as a tree, so that the same gradients always give the same bits.
// bad[block] = whether an x is inf or NaN (if asked). One block per chunk of 4096 elements, one
// launch for up to 192 gradients. Memory bound: sizeof(T) bytes per element, read once in 16-byte
// words; meant to reach 85 % of the bandwidth of reading (a block's tail is a reduction).
template <class T>
__global__ void __launch_bounds__(kChunkThreads)
    norm_parts_kernel(double* sums, int32_t* bad, ArrayTable<1> table, double p,
                      const float* scale) {
  after_previous_kernel();
  using C = ComputeType<T>;
  const Chunk chunk = chunk_of_block(table);
  const Unscale<C> unscale = scale == nullptr ? Unscale<C>{C(1)} : Unscale<C>::by(*scale);
  NormSum sum{p};
  bool finite = true;
  for_packets(static_cast<T*>(table.item[chunk.item].array[0]), chunk, [&](auto* from) {
    const auto packet = *from;
    for (const T& element : packet.v) {
      const C x = C(element);
      finite = finite && is_finite(x);
      sum.add(static_cast<double>(unscale(x)));
    }
  });
  const double total = block_reduce(sum.sum, JoinSums{p});
  if (threadIdx.x == 0) sums[blockIdx.x] = total;
  if (bad == nullptr) return;
  const int any = block_reduce(finite ? 0 : 1, Either());
  if (threadIdx.x == 0) bad[blockIdx.x] = any;
}

/// The norm of all parts, in thread 0.
__device__ double total_norm(const double* sums, int64_t parts, double p) {
  NormSum sum{p};
  for (int64_t i = threadIdx.x; i < parts; i += blockDim.x) sum.join({p, sums[i]});
  return NormSum{p, block_reduce(sum.sum, JoinSums{p})}.root();
}

// total = the root of all parts' sum. One block; 8 bytes per 4096 elements.
template <class Out>
__global__ void norm_total_kernel(Out* total, const double* sums, int64_t parts, double p) {
  after_previous_kernel();
  const double norm = total_norm(sums, parts, p);
  if (threadIdx.x == 0) *total = Out(norm);
}

/// What begins a step: turns the parts into what the update reads.
struct StepStart {
  const double* sums;
  const int32_t* bad;
  int64_t parts;
  const float* scale;  // null: 1
  double max_norm;     // 0: no clipping, and no total
  float* found_inf;    // may be null; written where there is a scale
  void* total;
  double* factors;
};

// Writes the total norm, the factors and the flag; then, unless the flag or a fault forbids it,
// counts one more update of each parameter. One block; 12 bytes per 4096 elements, so bound by the
// launch.
template <class Out>
__global__ void __launch_bounds__(kTotalThreads)
    begin_step_kernel(StepStart step, CountTable counts, Gate gate) {
  after_previous_kernel();
  LATHE_SHARED(bool, open);
  int any = 0;
  for (int64_t i = threadIdx.x; i < step.parts; i += blockDim.x) any |= step.bad[i];
  any = block_reduce(any, Either());
  const double norm = total_norm(step.sums, step.parts, 2);
  if (threadIdx.x == 0) {
    if (step.scale != nullptr) *step.found_inf = any != 0 ? 1.0f : 0.0f;
    step.factors[0] = step.scale == nullptr ? 1 : Unscale<double>::by(*step.scale).factor;
    step.factors[1] = 1;
    if (step.max_norm > 0) {
      const Out total = Out(norm);
      *static_cast<Out*>(step.total) = total;
      step.factors[1] = clip_factor(static_cast<double>(total), step.max_norm);
    }
    open = gate.open();
  }
  __syncthreads();
  const int i = static_cast<int>(threadIdx.x);
  if (open && i < counts.size) *counts.count[i] += 1;
}

/// The parts of the norm of dense gradients and, with `bad`, whether they are finite.
struct NormParts {
  Tensor sums, bad;
};
NormParts norm_parts(Device device, const Tensors& dense, double p, const Tensor& scale,
                     bool with_bad) {
  int64_t count = 0;
  for (const Tensor& g : dense) count += chunks_of(g.numel());
  NormParts parts{.sums = empty({count}, {.dtype = kF64, .device = device}), .bad = {}};
  if (with_bad) parts.bad = empty({count}, {.dtype = kI32, .device = device});
  int64_t done = 0;
  for_each_dtype("clip_grad", dense, [&](auto tag, const ArrayTable<1>& table) {
    using T = typename decltype(tag)::type;
    launch_dependent(norm_parts_kernel<T>, dim3(table.blocks), dim3(kChunkThreads), 0,
                     current_stream(device), parts.sums.data<double>() + done,
                     with_bad ? parts.bad.data<int32_t>() + done : nullptr, table, p,
                     scale.defined() ? scale.data<float>() : nullptr);
    LATHE_CUDA_CHECK(cudaGetLastError());
    done += table.blocks;
  });
  return parts;
}

}  // namespace

Tensor grad_norm(const Tensors& grads, double norm, DType dtype) {
  const Device device = grads.front().device();
  Tensor total = empty({}, {.dtype = dtype, .device = device});
  const Tensor sums = norm_parts(device, dense_grads(grads), norm, {}, false).sums;
  visit_float(dtype, "clip_grad_norm_", [&](auto tag) {
    using Out = typename decltype(tag)::type;
    launch_dependent(norm_total_kernel<Out>, dim3(1), dim3(kTotalThreads), 0,
                     current_stream(device), total.data<Out>(), sums.data<double>(), sums.numel(),
                     norm);
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
  return total;
}

void check_grads(const GradCheck& check, std::span<UpdateItem> items) {
  const Device device = check.factors.device();
  const NormParts parts = norm_parts(device, check.grads, 2, check.scale, true);
  CountTable counts;
  for (UpdateItem& item : items) {
    if (item.count == nullptr || counts.size == CountTable::kCapacity) continue;
    counts.count[counts.size++] = item.count;
    item.counted = true;
  }
  float* const found_inf = check.found_inf.defined() ? check.found_inf.data<float>() : nullptr;
  const StepStart step{.sums = parts.sums.data<double>(),
                       .bad = parts.bad.data<int32_t>(),
                       .parts = parts.sums.numel(),
                       .scale = check.scale.defined() ? check.scale.data<float>() : nullptr,
                       .max_norm = check.max_norm,
                       .found_inf = found_inf,
                       .total = check.total.defined() ? check.total.raw_data() : nullptr,
                       .factors = check.factors.data<double>()};
  const Gate gate{::lathe::cuda::device_fault(device), found_inf};
  const bool wide = check.total.defined() && check.total.dtype() == kF64;
  launch_dependent(wide ? begin_step_kernel<double> : begin_step_kernel<float>, dim3(1),
                   dim3(kTotalThreads), 0, current_stream(device), step, counts, gate);
  LATHE_CUDA_CHECK(cudaGetLastError());
}

}  // namespace lathe::optim::cuda
