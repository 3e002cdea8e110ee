// CUDA kernels of batch normalisation, forward: statistics, normalisation, running statistics; see
// batch_norm.h. Backward: batch_norm_backward_cuda.cu. Arithmetic: batch_norm_math.h,
// reduce_math.h. Contract: ops/batch_norm.h.
//
// In training, a kernel computes the moments of each chunk, and the next one joins them and
// normalises. Within a thread, moments are sums of deviations from the thread's first value;
// between the threads of a block they are merged by Chan's rule, both in f32; between blocks, in
// f64.
#include "lathe/core/gpu/dependent_launch.cuh"
#include "lathe/core/visit.h"
#include "lathe/ops/batch_norm_kernels/batch_norm_layout.cuh"
#include "lathe/ops/batch_norm_kernels/batch_norm_math.h"
#include "lathe/ops/batch_norm_kernels/batch_norm_running.cuh"
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

/// Sums of d and of d * d, where d is a value's deviation from the first one of the thread's
/// channel. That value is one of those summed, so however far it lies from their mean, the variance
/// loses no more digits than their count has.
template <class L>
struct Deviations {
  using S = typename L::S;
  S first[L::kChannels], sum[L::kChannels], squares[L::kChannels];

  __device__ void add(const typename L::Pack& packet) {
    for (int v = 0; v < L::kV; ++v) {
      const int q = L::kPlanes ? 0 : v;
      const S d = static_cast<S>(packet.v[v]) - first[q];
      sum[q] += d;
      squares[q] = math::batch_norm_multiply_add(d, d, squares[q]);
    }
  }
  __device__ MomentsPack<S, L::kChannels> moments(int64_t count) const {
    MomentsPack<S, L::kChannels> result = {};
    if (count == 0) return result;
    result.count = static_cast<S>(count);
    const S share = 1 / result.count;
    for (int q = 0; q < L::kChannels; ++q) {
      const S mean = sum[q] * share;
      result.mean[q] = first[q] + mean;
      result.m2[q] = squares[q] - sum[q] * mean;
    }
    return result;
  }
};

// parts[chunk][channel] = mean and sum of squared deviations of a chunk. Threads as ChannelLayout
// says. Memory bound: sizeof(T) bytes per element, read once; meant to reach the copy bandwidth,
// because each thread has 64 bytes in flight.
template <class L>
__global__ void __launch_bounds__(L::kBlock, L::kBlocksPerProcessor)
    stats_kernel(ChannelPair<typename L::S>* parts, const typename L::T* __restrict__ x, L layout) {
  after_previous_kernel();
  Deviations<L> own = {};
  bool begun = false;
  layout.template each<4, false>([&]<int kTurn>(const int64_t(&offsets)[kTurn]) {
    typename L::Pack packets[kTurn];
    load_packets<L>(packets, x, offsets);
    if (!begun) {
      for (int q = 0; q < L::kChannels; ++q) {
        own.first[q] = static_cast<typename L::S>(packets[0].v[q]);
      }
    }
    begun = true;
    unrolled<kTurn>([&](auto u) { own.add(packets[u]); });
  });
  const int64_t group = layout.group();
  auto total = own.moments(group < layout.groups ? layout.own_count() : 0);
  total = block_reduce_columns<L::kBlock>(total, Join{}, layout.width);
  if (threadIdx.x >= layout.width || group >= layout.groups) return;
  for (int q = 0; q < L::kChannels; ++q) {
    parts[blockIdx.y * layout.channels + group * L::kChannels + q] = {total.mean[q], total.m2[q]};
  }
}

/// The chunks' moments, and where the statistics of the batch go.
template <class S>
struct BatchStats {
  const ChannelPair<S>* parts;
  double share, eps;  // share: 1 / numbers per channel, 0 for none
  S *mean, *invstd;
  Running<S> running;
};

/// The statistics of the block's tile, and from them the numbers of the thread's channels. The
/// first block of each tile writes the statistics down.
template <class L>
__device__ OwnParams<L> join_stats(const L& layout, const BatchStats<typename L::S>& stats,
                                   const ChannelParams<typename L::S>& params) {
  using S = typename L::S;
  LATHE_SHARED(S[L::kMostTile], mean);
  LATHE_SHARED(S[L::kMostTile], scale);
  LATHE_SHARED(S[L::kMostTile], bias);
  const unsigned t = threadIdx.x, tile = layout.tile();
  const int64_t c = blockIdx.x * int64_t(tile) + t % tile;
  const bool finishes = t < tile && c < layout.channels;
  const bool moves = finishes && blockIdx.y == 0 && stats.running.mean != nullptr;
  const ChannelValues<S> values(params, stats.running, finishes ? c : 0, moves);
  // Deviations from the first chunk's mean, so that f64 keeps the digits of the difference.
  const double first = c < layout.channels ? static_cast<double>(stats.parts[c].a) : 0;
  const auto total = sum_chunks(layout, stats.parts, [&](int64_t k, const ChannelPair<S>& part) {
    const double n = layout.count(k), d = static_cast<double>(part.a) - first;
    return ChannelPair<double>{n * d, static_cast<double>(part.b) + n * d * d};
  });
  if (finishes) {
    const double shift = total.a * stats.share;
    const double spread = (total.b - total.a * shift) * stats.share;
    const S own_mean = static_cast<S>(first + shift);
    const S var = static_cast<S>(spread < 0 ? 0 : spread);
    const S invstd = math::batch_norm_invstd(var, stats.eps);
    mean[t] = own_mean;
    scale[t] = values.weight * invstd;
    bias[t] = values.bias;
    if (blockIdx.y == 0) {
      stats.mean[c] = own_mean;
      stats.invstd[c] = invstd;
    }
    if (moves) values.move(stats.running, c, own_mean, var);
  }
  __syncthreads();
  OwnParams<L> own;
  for (int q = 0; q < L::kChannels; ++q) {
    const unsigned at = t % layout.width * L::kChannels + q;
    own.mean[q] = mean[at];
    own.scale[q] = scale[at];
    own.bias[q] = bias[at];
  }
  return own;
}

template <class T>
struct ApplyTensors {
  T* __restrict__ y;
  const T* __restrict__ x;
  const T* __restrict__ residual;  // null unless the form adds one
  uint8_t* __restrict__ passed;    // null, or a byte for each packet of 8: BatchNormCall::passed
};

/// y = form(t * scale + bias [+ residual]), from the last packet to the first: the statistics have
/// just read x from the first to the last, so the cache holds the last; and the next op finds the
/// first of y there.
template <class L, BatchNormForm kForm>
__device__ void apply(const ApplyTensors<typename L::T>& in, const OwnParams<L>& own,
                      const L& layout) {
  using S = typename L::S;
  constexpr bool kAdds = kForm == BatchNormForm::kAddRelu;
  layout.template each<4, true>([&]<int kTurn>(const int64_t(&offsets)[kTurn]) {
    typename L::Pack packets[kTurn];
    [[maybe_unused]] typename L::Pack added[kTurn];
    load_packets<L>(packets, in.x, offsets);
    if constexpr (kAdds) load_packets<L>(added, in.residual, offsets);
    unrolled<kTurn>([&](auto u) {
      S values[L::kV];
      for (int v = 0; v < L::kV; ++v) {
        const int q = L::kPlanes ? 0 : v;
        const S t = static_cast<S>(packets[u].v[v]) - own.mean[q];
        values[v] = math::batch_norm_affine(t, own.scale[q], own.bias[q]);
        if constexpr (kAdds) values[v] += static_cast<S>(added[u].v[v]);
        if constexpr (kForm != BatchNormForm::kPlain) values[v] = math::batch_norm_relu(values[v]);
      }
      const typename L::Pack y = rounded<typename L::T>(values);
      store_packet(in.y + offsets[u], y);
      if constexpr (kAdds && L::kV == 8) {
        if (in.passed != nullptr) in.passed[offsets[u] / 8] = passed_bits<S>(y);
      }
    });
  });
}

// Normalises with given statistics. Threads as ChannelLayout says: each keeps its channels' numbers
// in registers. Memory bound: 2 * sizeof(T) bytes per element, 3 with a residual; meant to reach
// the copy bandwidth, because all accesses are 16 bytes and nothing is read twice.
template <class L, BatchNormForm kForm>
__global__ void __launch_bounds__(L::kBlock, L::kBlocksPerProcessor)
    apply_kernel(ApplyTensors<typename L::T> in, ChannelParams<typename L::S> params, L layout) {
  after_previous_kernel();
  apply<L, kForm>(in, OwnParams<L>(layout, params), layout);
}

// The same with the statistics of the batch, which it joins first: 1 to 2 µs, which large tensors
// hide.
template <class L, BatchNormForm kForm>
__global__ void __launch_bounds__(L::kBlock, L::kBlocksPerProcessor)
    train_kernel(ApplyTensors<typename L::T> in, BatchStats<typename L::S> stats,
                 ChannelParams<typename L::S> params, L layout) {
  after_previous_kernel();
  apply<L, kForm>(in, join_stats(layout, stats, params), layout);
}

// The statistics of the batch and, from them, scale and shift per channel in x's dtype. One block
// per tile of channels. Latency bound.
template <class L>
__global__ void __launch_bounds__(L::kBlock)
    coefficients_kernel(typename L::T* scale, typename L::T* shift, BatchStats<typename L::S> stats,
                        ChannelParams<typename L::S> params, L layout) {
  after_previous_kernel();
  const OwnParams<L> own = join_stats(layout, stats, params);
  const int64_t group = layout.group();
  if (threadIdx.x >= layout.width || group >= layout.groups) return;
  for (int q = 0; q < L::kChannels; ++q) {
    const int64_t c = group * L::kChannels + q;
    scale[c] = static_cast<typename L::T>(own.scale[q]);
    shift[c] = static_cast<typename L::T>(own.bias[q] - own.mean[q] * own.scale[q]);
  }
}

/// Threads per channel, where one takes sums that are known and all may have to read x.
constexpr unsigned kFinalizeBlock = 256;

/// Mean and biased variance of a channel.
struct ChannelMoments {
  double mean, var;
};

/// The variance from sums of x and of x * x, in f32, is off by about mean^2 / 2^22. Where that is
/// more than 2^-10 of var + eps, invstd is off by more than the rounding of a half: such sums do
/// not serve.
__device__ inline bool sums_serve(const ChannelMoments& from_sums, double eps) {
  return !(from_sums.mean * from_sums.mean > 4096 * (from_sums.var + eps));  // NaN: as they are
}

/// Mean and variance of channel c from x itself, by sums of deviations from about the mean.
/// `plane` is the distance of two channels, 1 for NHWC. All threads of the block take part and get
/// the result.
template <class T>
__device__ ChannelMoments channel_moments(const T* __restrict__ x, double about, int64_t c,
                                          int64_t channels, int64_t count, int64_t plane) {
  ChannelPair<double> total = {};
  for (int64_t i = threadIdx.x; i < count; i += blockDim.x) {
    const int64_t sample = i / plane;
    const double d =
        static_cast<double>(x[(sample * channels + c) * plane + i - sample * plane]) - about;
    total.join({d, d * d});
  }
  total = block_reduce_all(total, Join{});
  const double n = static_cast<double>(count), shift = total.a / n;
  const double spread = total.b / n - shift * shift;
  return {about + shift, spread < 0 ? 0 : spread};
}

// Statistics, scale and shift from sums that are known; scale and shift may be null. A block has
// one channel. Its first thread takes the sums. Where they do not serve, the block reads x. Latency
// bound; a channel that is read costs what one multiprocessor needs to read it.
template <class T, class S>
__global__ void __launch_bounds__(kFinalizeBlock)
    finalize_kernel(T* scale, T* shift, S* means, S* invstds, const float* sums, const T* x,
                    int64_t count, int64_t plane, double eps, ChannelParams<S> params,
                    Running<S> running, int64_t channels) {
  after_previous_kernel();
  const int64_t c = blockIdx.x;
  const bool moves = threadIdx.x == 0 && running.mean != nullptr;  // else others read as it writes
  const ChannelValues<S> values(params, running, c, moves);
  const double share = count > 0 ? 1 / static_cast<double>(count) : 0;
  const double mean = sums[c] * share, spread = sums[channels + c] * share - mean * mean;
  ChannelMoments moments{mean, spread < 0 ? 0 : spread};
  if (!sums_serve(moments, eps)) moments = channel_moments(x, mean, c, channels, count, plane);
  if (threadIdx.x > 0) return;
  const S own_mean = static_cast<S>(moments.mean), var = static_cast<S>(moments.var);
  const S invstd = math::batch_norm_invstd(var, eps);
  means[c] = own_mean;
  invstds[c] = invstd;
  if (moves) values.move(running, c, own_mean, var);
  if (scale == nullptr) return;
  const S factor = values.weight * invstd;
  scale[c] = static_cast<T>(factor);
  shift[c] = static_cast<T>(values.bias - own_mean * factor);
}

template <class S>
__global__ void invstd_kernel(S* invstd, const S* var, int64_t var_stride, double eps,
                              int64_t channels) {
  after_previous_kernel();
  const int64_t c = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (c < channels) invstd[c] = math::batch_norm_invstd(var[c * var_stride], eps);
}

/// Lines of 128 bytes are read fastest. But a tile of half the channels has half as many chunks to
/// join, which counts more for tensors that fit into the cache.
unsigned forward_tile(const Tensor& x) { return x.numel() < (int64_t{1} << 24) ? 64 : 128; }

template <class T>
ApplyTensors<T> apply_tensors(const Tensor& y, const BatchNormCall& call, const Tensor& residual) {
  return {y.data<T>(), call.x.data<T>(), residual.defined() ? residual.data<T>() : nullptr,
          call.passed.defined() ? call.passed.data<uint8_t>() : nullptr};
}

}  // namespace

/// Queues the kernel of the moments, then calls f(layout, stats) for the one that joins them.
/// `others` are what that reads or writes beside x.
template <class F>
static void with_stats(BatchNormCall& call, double eps, const BatchNormRunning& running,
                       std::initializer_list<const Tensor*> others, F f) {
  const Tensor& x = call.x;
  const int64_t channels = x.dim(1);
  const double count = static_cast<double>(x.numel() / channels);
  visit_float(x.dtype(), "batch_norm", [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_layout<T>(x, forward_tile(x), others, [&](const auto& layout) {
      using L = std::remove_cvref_t<decltype(layout)>;
      using S = typename L::S;
      const Tensor room = room_for_parts(layout, x);
      auto* const parts = static_cast<ChannelPair<S>*>(room.raw_data());
      launch_dependent(stats_kernel<L>, layout.grid(), dim3(L::kBlock), 0,
                       current_stream(x.device()), parts, x.data<T>(), layout);
      LATHE_CUDA_CHECK(cudaGetLastError());
      const double share = count > 0 ? 1 / count : 0;
      f(layout, BatchStats<S>{parts, share, eps, call.mean.data<S>(), call.invstd.data<S>(),
                              running_of<S>(running, count)});
      LATHE_CUDA_CHECK(cudaGetLastError());
    });
  });
}

/// Makes room for the statistics that a call computes.
static void make_stats(BatchNormCall& call) {
  const TensorOptions options{.dtype = call.x.dtype() == kF64 ? kF64 : kF32,
                              .device = call.x.device()};
  call.mean = empty({call.x.dim(1)}, options);
  call.invstd = empty({call.x.dim(1)}, options);
}

/// The statistics from call.sums. Scale and shift are written if they are there.
static void finalize(BatchNormCall& call, double eps, const BatchNormRunning& running,
                     const BatchNormCoefficients& result) {
  const Tensor& x = call.x;
  const int64_t channels = x.dim(1), count = x.numel() / channels;
  const int64_t plane = x.is_contiguous() ? count / std::max<int64_t>(x.dim(0), 1) : 1;
  visit_float(x.dtype(), "batch_norm", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using S = ComputeType<T>;
    const auto data = [](const Tensor& t) { return t.defined() ? t.data<T>() : nullptr; };
    launch_dependent(finalize_kernel<T, S>, dim3(static_cast<unsigned>(channels)),
                     dim3(kFinalizeBlock), 0, current_stream(x.device()), data(result.scale),
                     data(result.shift), call.mean.data<S>(), call.invstd.data<S>(),
                     static_cast<const float*>(call.sums.raw_data()), x.data<T>(), count,
                     std::max<int64_t>(plane, 1), eps, ChannelParams<S>(call),
                     running_of<S>(running, static_cast<double>(count)), channels);
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
}

static void apply_stats(const Tensor& y, BatchNormCall& call, const Tensor& residual) {
  if (call.x.numel() == 0) return;
  visit_float(call.x.dtype(), "batch_norm", [&](auto tag) {
    using T = typename decltype(tag)::type;
    with_layout<T>(call.x, forward_tile(call.x), {&y, &residual}, [&](const auto& layout) {
      using L = std::remove_cvref_t<decltype(layout)>;
      make_passed<L>(call);
      with_form(call.form, [&](auto form) {
        launch_dependent(apply_kernel<L, form()>, layout.grid(), dim3(L::kBlock), 0,
                         current_stream(y.device()), apply_tensors<T>(y, call, residual),
                         ChannelParams<typename L::S>(call), layout);
      });
      LATHE_CUDA_CHECK(cudaGetLastError());
    });
  });
}

Tensor batch_norm_train(BatchNormCall& call, const Tensor& residual, double eps,
                        const BatchNormRunning& running) {
  make_stats(call);
  Tensor y = empty_like(call.x);
  if (call.x.dim(1) == 0) return y;
  if (call.sums.defined()) {
    finalize(call, eps, running, {});
    apply_stats(y, call, residual);
    return y;
  }
  with_stats(call, eps, running, {&y, &residual}, [&](const auto& layout, const auto& stats) {
    using L = std::remove_cvref_t<decltype(layout)>;
    make_passed<L>(call);
    with_form(call.form, [&](auto form) {
      launch_dependent(train_kernel<L, form()>, layout.grid(), dim3(L::kBlock), 0,
                       current_stream(y.device()), apply_tensors<typename L::T>(y, call, residual),
                       stats, ChannelParams<typename L::S>(call), layout);
    });
  });
  return y;
}

BatchNormCoefficients batch_norm_coefficients(BatchNormCall& call, double eps,
                                              const BatchNormRunning& running) {
  make_stats(call);
  const TensorOptions options{.dtype = call.x.dtype(), .device = call.x.device()};
  const BatchNormCoefficients result{empty({call.x.dim(1)}, options),
                                     empty({call.x.dim(1)}, options)};
  if (call.x.dim(1) == 0) return result;
  if (call.sums.defined()) {
    finalize(call, eps, running, result);
    return result;
  }
  with_stats(call, eps, running, {}, [&](const auto& layout, const auto& stats) {
    using L = std::remove_cvref_t<decltype(layout)>;
    using T = typename L::T;
    launch_dependent(coefficients_kernel<L>, dim3(layout.grid().x), dim3(L::kBlock), 0,
                     current_stream(call.x.device()), result.scale.template data<T>(),
                     result.shift.template data<T>(), stats, ChannelParams<typename L::S>(call),
                     layout);
  });
  return result;
}

Tensor batch_norm_invstd(const Tensor& var, double eps) {
  Tensor out = empty(var.shape(), {.dtype = var.dtype(), .device = var.device()});
  if (var.numel() == 0) return out;
  const dim3 grid(static_cast<unsigned>(ceil_div(var.numel(), kPointwiseBlock)));
  visit_float(var.dtype(), "batch_norm", [&](auto tag) {
    using S = typename decltype(tag)::type;
    launch_dependent(invstd_kernel<S>, grid, dim3(kPointwiseBlock), 0, current_stream(var.device()),
                     out.data<S>(), var.data<S>(), var.stride(0), eps, var.numel());
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
  return out;
}

Tensor batch_norm_forward(const BatchNormCall& call, const Tensor& residual) {
  Tensor y = empty_like(call.x);
  BatchNormCall alone = call;
  alone.wants_passed = false;
  apply_stats(y, alone, residual);
  return y;
}

}  // namespace lathe::cuda
