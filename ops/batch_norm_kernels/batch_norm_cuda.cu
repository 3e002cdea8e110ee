// CUDA kernels of batch normalisation, forward: statistics, running statistics, normalisation; see
// batch_norm.h. Backward: batch_norm_backward_cuda.cu. Arithmetic: batch_norm_math.h,
// reduce_math.h.
//
// Partial means and squared deviations are f32 (two passes over the packets in registers, merged by
// Chan's rule); the partials of the blocks are merged in f64.
#include "lathe/core/visit.h"
#include "lathe/ops/batch_norm_kernels/batch_norm_layout.cuh"
#include "lathe/ops/batch_norm_kernels/batch_norm_math.h"
#include "lathe/ops/reduce_kernels/reduce_math.h"

namespace lathe::cuda {

namespace {

/// reduce_math's Moments of P channels with one count: an odd number of words, so that a block's
/// threads use different banks of shared memory.
template <class A, int P>
struct MomentsPack {
  A count, mean[P], m2[P];

  __device__ void join(const MomentsPack& b) {
    reduce_math::Moments<A> a = {};
    for (int q = 0; q < P; ++q) {
      a = {count, mean[q], m2[q]};
      a.join({b.count, b.mean[q], b.m2[q]});
      mean[q] = a.mean;
      m2[q] = a.m2;
    }
    count = a.count;
  }
};

/// The moments of the first n packets.
template <class L>
__device__ MomentsPack<typename L::S, L::kChannels> moments_of(
    const typename L::Pack (&packets)[L::kTurn], int n) {
  using S = typename L::S;
  MomentsPack<S, L::kChannels> part = {};
  part.count = static_cast<S>(L::kPlanes ? n * L::kV : n);
  unrolled<L::kTurn>([&](auto u) {
    for (int v = 0; v < L::kV; ++v) {
      if (u < n) part.mean[L::kPlanes ? 0 : v] += static_cast<S>(packets[u].v[v]);
    }
  });
  for (int q = 0; q < L::kChannels; ++q) part.mean[q] /= part.count;
  unrolled<L::kTurn>([&](auto u) {
    for (int v = 0; v < L::kV; ++v) {
      const int q = L::kPlanes ? 0 : v;
      const S d = static_cast<S>(packets[u].v[v]) - part.mean[q];
      if (u < n) part.m2[q] += d * d;
    }
  });
  return part;
}

// parts[chunk][channel] = moments of a chunk of packets. Threads as ChannelLayout says. Memory
// bound: sizeof(T) bytes per element, read once. Meant to reach 85 % of the read bandwidth from
// some MiB on, because each thread has 64 bytes in flight and a wave of blocks fills the GPU.
template <class L>
__global__ void __launch_bounds__(kReduceBlock, 2)
    stats_kernel(reduce_math::Moments<typename L::S>* parts, const typename L::T* __restrict__ x,
                 L layout) {
  using S = typename L::S;
  MomentsPack<S, L::kChannels> total = {};
  layout.each([&](const auto& offsets, int n) {
    typename L::Pack packets[L::kTurn] = {};
    load_packets<L>(packets, x, offsets, n);
    total.join(moments_of<L>(packets, n));
  });
  total = block_reduce_columns<kReduceBlock>(total, Join{}, layout.width);
  const int64_t group = layout.group();
  if (threadIdx.x >= layout.width || group >= layout.groups) return;
  for (int q = 0; q < L::kChannels; ++q) {
    parts[blockIdx.y * layout.channels + group * L::kChannels + q] = {total.count, total.mean[q],
                                                                      total.m2[q]};
  }
}

// mean, biased variance and invstd of each channel from its chunks' moments, in f64. Few channels
// per block, so that a thread joins about 8 partials: it takes microseconds.
template <class S>
__global__ void __launch_bounds__(kReduceBlock)
    stats_join_kernel(S* mean, S* var, S* invstd, const reduce_math::Moments<S>* parts, double eps,
                      int64_t channels, int64_t chunks, unsigned width) {
  const unsigned rows = kReduceBlock / width, row = threadIdx.x / width;
  const int64_t c = blockIdx.x * int64_t(width) + threadIdx.x % width;
  reduce_math::Moments<double> total = {};
  if (c < channels) {
    for (int64_t k = row; k < chunks; k += rows) {
      const auto& part = parts[k * channels + c];
      total.join({static_cast<double>(part.count), static_cast<double>(part.mean),
                  static_cast<double>(part.m2)});
    }
  }
  total = block_reduce_columns<kReduceBlock>(total, Join{}, width);
  if (row != 0 || c >= channels) return;
  const S spread = static_cast<S>(total.count > 0 ? total.m2 / total.count : 0);
  mean[c] = static_cast<S>(total.mean);
  var[c] = spread;
  invstd[c] = math::batch_norm_invstd(spread, eps);
}

// One thread per channel; the first one also counts the batch, if there is a counter. Latency
// bound: some KiB.
template <class S>
__global__ void update_kernel(S* running_mean, int64_t mean_stride, S* running_var,
                              int64_t var_stride, const S* mean, const S* var, double momentum,
                              double unbias, int64_t* num_batches, int64_t channels) {
  const int64_t c = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (c >= channels) return;
  if (c == 0 && num_batches != nullptr) ++*num_batches;
  S& m = running_mean[c * mean_stride];
  S& v = running_var[c * var_stride];
  m = static_cast<S>((1 - momentum) * m + momentum * mean[c]);
  v = static_cast<S>((1 - momentum) * v + momentum * unbias * var[c]);
}

template <class S>
__global__ void invstd_kernel(S* invstd, const S* var, int64_t var_stride, double eps,
                              int64_t channels) {
  const int64_t c = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (c < channels) invstd[c] = math::batch_norm_invstd(var[c * var_stride], eps);
}

// y = form(t * scale + bias [+ residual]). Threads as ChannelLayout says: each keeps its channels'
// numbers in registers. Memory bound: 2 * sizeof(T) bytes per element, 3 with a residual; meant to
// reach 90 % of the copy bandwidth, because all accesses are 16 bytes and nothing is read twice.
template <class L>
__global__ void __launch_bounds__(kReduceBlock)
    apply_kernel(BatchNormForm form, typename L::T* __restrict__ y,
                 const typename L::T* __restrict__ x, const typename L::T* __restrict__ residual,
                 ChannelParams<typename L::S> params, L layout) {
  using S = typename L::S;
  using T = typename L::T;
  const OwnParams<L> own(layout, params);
  layout.each([&](const auto& offsets, int n) {
    typename L::Pack packets[L::kTurn], added[L::kTurn];
    load_packets<L>(packets, x, offsets, n);
    if (form == BatchNormForm::kAddRelu) load_packets<L>(added, residual, offsets, n);
    unrolled<L::kTurn>([&](auto u) {
      if (u >= n) return;
      for (int v = 0; v < L::kV; ++v) {
        const int q = L::kPlanes ? 0 : v;
        const S t = static_cast<S>(packets[u].v[v]) - own.mean[q];
        S value = math::batch_norm_affine(t, own.scale[q], own.bias[q]);
        if (form == BatchNormForm::kAddRelu) value += static_cast<S>(added[u].v[v]);
        if (form != BatchNormForm::kPlain) value = math::batch_norm_relu(value);
        packets[u].v[v] = static_cast<T>(value);
      }
      *reinterpret_cast<typename L::Pack*>(y + offsets[u]) = packets[u];
    });
  });
}

LaunchSize per_channel(int64_t channels) {
  return {dim3(static_cast<unsigned>(ceil_div(channels, kPointwiseBlock))), dim3(kPointwiseBlock)};
}

template <class T>
void stats(const BatchNormStats& out, const Tensor& x, double eps) {
  using S = ComputeType<T>;
  const int64_t channels = x.dim(1);
  const Stream stream = current_stream(x.device());
  with_layout<T, 4>(x, kBatchNormBlocks, {}, [&](const auto& layout) {
    using L = std::remove_cvref_t<decltype(layout)>;
    using Moments = reduce_math::Moments<S>;
    const int64_t bytes = layout.chunks * channels * static_cast<int64_t>(sizeof(Moments));
    const Tensor room = empty({bytes}, {.dtype = kU8, .device = x.device()});
    Moments* parts = static_cast<Moments*>(room.raw_data());
    launch(stats_kernel<L>, layout.grid(), dim3(kReduceBlock), 0, stream, parts, x.data<T>(),
           layout);
    LATHE_CUDA_CHECK(cudaGetLastError());
    const unsigned width = kReduceBlock / join_rows(layout.chunks);
    launch(stats_join_kernel<S>, dim3(static_cast<unsigned>(ceil_div(channels, width))),
           dim3(kReduceBlock), 0, stream, out.mean.data<S>(), out.var.data<S>(),
           out.invstd.data<S>(), parts, eps, channels, layout.chunks, width);
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
}

}  // namespace

BatchNormStats batch_norm_stats(const Tensor& x, double eps) {
  const TensorOptions options{.dtype = x.dtype() == kF64 ? kF64 : kF32, .device = x.device()};
  const Shape channels{x.dim(1)};
  BatchNormStats out{empty(channels, options), empty(channels, options), empty(channels, options)};
  if (x.dim(1) == 0) return out;
  visit_float(x.dtype(), "batch_norm",
              [&](auto tag) { stats<typename decltype(tag)::type>(out, x, eps); });
  return out;
}

void batch_norm_update_(const Tensor& running_mean, const Tensor& running_var,
                        const BatchNormStats& batch, double momentum, int64_t count,
                        const Tensor& num_batches) {
  const int64_t channels = batch.mean.numel();
  if (channels == 0) return;
  const double unbias = static_cast<double>(count) / static_cast<double>(count - 1);
  int64_t* const counter = num_batches.defined() ? num_batches.data<int64_t>() : nullptr;
  const auto [grid, block] = per_channel(channels);
  visit_float(batch.mean.dtype(), "batch_norm", [&](auto tag) {
    using S = typename decltype(tag)::type;
    launch(update_kernel<S>, grid, block, 0, current_stream(batch.mean.device()),
           running_mean.data<S>(), running_mean.stride(0), running_var.data<S>(),
           running_var.stride(0), batch.mean.data<S>(), batch.var.data<S>(), momentum, unbias,
           counter, channels);
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
}

Tensor batch_norm_invstd(const Tensor& var, double eps) {
  Tensor out = empty(var.shape(), {.dtype = var.dtype(), .device = var.device()});
  if (var.numel() == 0) return out;
  const auto [grid, block] = per_channel(var.numel());
  visit_float(var.dtype(), "batch_norm", [&](auto tag) {
    using S = typename decltype(tag)::type;
    launch(invstd_kernel<S>, grid, block, 0, current_stream(var.device()), out.data<S>(),
           var.data<S>(), var.stride(0), eps, var.numel());
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
  return out;
}

Tensor batch_norm_forward(const BatchNormCall& call, const Tensor& residual) {
  Tensor y = empty_like(call.x);
  if (call.x.numel() == 0) return y;
  visit_float(call.x.dtype(), "batch_norm", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* add = residual.defined() ? residual.data<T>() : nullptr;
    with_layout<T, 2>(call.x, kFillingBlocks, {&y, &residual}, [&](const auto& layout) {
      using L = std::remove_cvref_t<decltype(layout)>;
      launch(apply_kernel<L>, layout.grid(), dim3(kReduceBlock), 0, current_stream(y.device()),
             call.form, y.data<T>(), call.x.data<T>(), add, ChannelParams<typename L::S>(call),
             layout);
      LATHE_CUDA_CHECK(cudaGetLastError());
    });
  });
  return y;
}

}  // namespace lathe::cuda
