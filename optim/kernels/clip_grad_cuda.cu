// Gradient clipping on the GPU: many gradients in one launch; the host waits for no value. The
// norms are made in check_grads_cuda.cu. The arithmetic is clip_math.h, as in the CPU loops.
#include "lathe/core/gpu/launch.h"
#include "lathe/optim/clip_grad.h"
#include "lathe/optim/kernels/clip_math.h"
#include "lathe/optim/kernels/grad_tables.cuh"

namespace lathe::optim::cuda {

namespace {

/// The total norm in device memory, f32 or f64.
struct Total {
  const void* data;
  bool is_f64;
  __device__ double value() const {
    return is_f64 ? *static_cast<const double*>(data)
                  : static_cast<double>(*static_cast<const float*>(data));
  }
};

/// A map made ready on the device: the factor of Clip depends on a value there.
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

// x = f(x) for many gradients, a block per chunk of 4096 elements; writes nothing if f changes
// nothing. Memory bound: 2 sizeof(T) bytes per element, meant to reach 90 % of the copy bandwidth.
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

void scale_grads(const Tensors& grads, const Tensor& total, double max_norm) {
  map_in_place(grads, Clip{{total.raw_data(), total.dtype() == kF64}, max_norm});
}

void clamp_grads(const Tensors& grads, double limit) { map_in_place(grads, ClampTo{limit}); }

}  // namespace lathe::optim::cuda
