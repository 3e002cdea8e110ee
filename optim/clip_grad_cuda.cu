// Gradient clipping on the GPU: many gradients in one launch, and no value that the host must wait
// for. The arithmetic is that of clip_math.h, which the CPU loops use too.
#include "lathe/core/launch.h"
#include "lathe/core/visit.h"
#include "lathe/ops/block_reduce.h"
#include "lathe/optim/clip_grad.h"
#include "lathe/optim/clip_math.h"
#include "lathe/optim/grad_tables.h"

namespace lathe::optim::cuda {

namespace {

using ::lathe::cuda::block_reduce;

struct JoinSums {
  double p;
  __device__ double operator()(double a, double b) const {
    NormSum sum{p, a};
    sum.join({p, b});
    return sum.sum;
  }
};

// parts[block] = the chunk's part of the p-norm, without the root, summed in double: by thread,
// then as a tree, so that the same gradients always give the same bits. One block per chunk of 4096
// elements, one launch for up to 137 gradients. Memory bound: sizeof(T) bytes per element, read
// once in 16-byte words; meant to reach 85 % of the bandwidth of reading (a block's tail is a
// reduction).
template <class T>
__global__ void __launch_bounds__(kChunkThreads)
    norm_parts_kernel(double* parts, ArrayTable<1> table, double p) {
  const Chunk chunk = chunk_of_block(table);
  NormSum sum{p};
  for_packets(static_cast<T*>(table.item[chunk.item].array[0]), chunk, [&sum](auto* from) {
    const auto packet = *from;
    for (const T& x : packet.v) sum.add(static_cast<double>(ComputeType<T>(x)));
  });
  const double total = block_reduce(sum.sum, JoinSums{p});
  if (threadIdx.x == 0) parts[blockIdx.x] = total;
}

// total = the root of all parts' sum. One block; 8 bytes per 4096 elements.
template <class Out>
__global__ void norm_total_kernel(Out* total, const double* parts, int64_t count, double p) {
  NormSum sum{p};
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) sum.join({p, parts[i]});
  const double all = block_reduce(sum.sum, JoinSums{p});
  if (threadIdx.x == 0) *total = Out(NormSum{p, all}.root());
}

/// The total norm in device memory, f32 or f64.
struct Total {
  const void* data;
  bool is_f64;
  __device__ double value() const {
    return is_f64 ? *static_cast<const double*>(data)
                  : static_cast<double>(*static_cast<const float*>(data));
  }
};

/// What a map does, made ready on the device: the factor of Clip depends on a device value.
struct Clip {
  Total total;
  double max_norm;
  template <class C>
  __device__ Scale<C> ready() const {
    return {C(clip_factor(total.value(), max_norm))};
  }
  __device__ bool changes() const { return clip_factor(total.value(), max_norm) != 1; }
};
struct ClampTo {
  double limit;
  template <class C>
  __device__ Clamp<C> ready() const {
    return {C(limit)};
  }
  __device__ bool changes() const { return true; }
};

// x = f(x) for many gradients, chunks as above; nothing is touched if f changes nothing. Memory
// bound: 2 sizeof(T) bytes per element, meant to reach 90 % of the copy bandwidth.
template <class T, class Map>
__global__ void __launch_bounds__(kChunkThreads) map_kernel(ArrayTable<1> table, Map map) {
  using C = ComputeType<T>;
  if (!map.changes()) return;
  const auto f = map.template ready<C>();
  const Chunk chunk = chunk_of_block(table);
  for_packets(static_cast<T*>(table.item[chunk.item].array[0]), chunk, [&f](auto* at) {
    auto packet = *at;
    for (T& x : packet.v) x = T(f(C(x)));
    *at = packet;
  });
}

template <class Map>
void map_in_place(const Tensors& grads, const Map& map) {
  change_dense("clip_grad", grads, [&](auto tag, const ArrayTable<1>& table) {
    using T = typename decltype(tag)::type;
    launch(map_kernel<T, Map>, dim3(table.blocks), dim3(kChunkThreads), 0,
           current_stream(grads.front().device()), table, map);
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
}

}  // namespace

Tensor grad_norm(const Tensors& grads, double norm, DType dtype) {
  const Device device = grads.front().device();
  const Stream stream = current_stream(device);
  const Tensors copies = dense_grads(grads);
  int64_t count = 0;
  for (const Tensor& g : copies) count += (g.numel() + kChunk - 1) / kChunk;
  const Tensor parts = empty({count}, {.dtype = kF64, .device = device});
  int64_t done = 0;
  for_each_dtype("clip_grad", copies, [&](auto tag, const ArrayTable<1>& table) {
    using T = typename decltype(tag)::type;
    launch(norm_parts_kernel<T>, dim3(table.blocks), dim3(kChunkThreads), 0, stream,
           parts.data<double>() + done, table, norm);
    LATHE_CUDA_CHECK(cudaGetLastError());
    done += table.blocks;
  });
  Tensor total = empty({}, {.dtype = dtype, .device = device});
  visit_float(dtype, "clip_grad_norm_", [&](auto tag) {
    using Out = typename decltype(tag)::type;
    launch(norm_total_kernel<Out>, dim3(1), dim3(1024), 0, stream, total.data<Out>(),
           parts.data<double>(), count, norm);
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
  return total;
}

void scale_grads(const Tensors& grads, const Tensor& total, double max_norm) {
  map_in_place(grads, Clip{{total.raw_data(), total.dtype() == kF64}, max_norm});
}

void clamp_grads(const Tensors& grads, double limit) { map_in_place(grads, ClampTo{limit}); }

}  // namespace lathe::optim::cuda
