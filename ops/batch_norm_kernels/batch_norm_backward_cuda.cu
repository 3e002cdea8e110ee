// CUDA kernels of batch normalisation, backward: one pass for the sums per channel, one for dx.
// Sums are f32 within a block and f64 between blocks. Contracts: batch_norm.h; arithmetic:
// batch_norm_math.h.
#include "lathe/core/visit.h"
#include "lathe/ops/batch_norm_kernels/batch_norm_layout.cuh"
#include "lathe/ops/batch_norm_kernels/batch_norm_math.h"

namespace lathe::cuda {

namespace {

/// Sums of g and of g * t of P channels. The unused number makes the size an odd number of words,
/// so that a block's threads use different banks of shared memory.
template <class S, int P>
struct GradSums {
  S g[P], gt[P], unused;
  __device__ void join(const GradSums& b) {
    for (int q = 0; q < P; ++q) {
      g[q] += b.g[q];
      gt[q] += b.gt[q];
    }
  }
};

/// What a gradient kernel reads; y is null unless the form is kAddRelu.
template <class T>
struct GradInputs {
  BatchNormForm form;
  const T *dy, *x, *y;
};

/// The packets of one turn: t = x - mean and g = dy where the form passes it.
template <class L>
struct GradTurn {
  using S = typename L::S;
  typename L::Pack dy[L::kTurn], x[L::kTurn], y[L::kTurn];

  __device__ GradTurn(const GradInputs<typename L::T>& in, const int64_t (&offsets)[L::kTurn],
                      int n) {
    load_packets<L>(dy, in.dy, offsets, n);
    load_packets<L>(x, in.x, offsets, n);
    if (in.form == BatchNormForm::kAddRelu) load_packets<L>(y, in.y, offsets, n);
  }
  __device__ S t(const OwnParams<L>& own, int u, int v) const {
    return static_cast<S>(x[u].v[v]) - own.mean[L::kPlanes ? 0 : v];
  }
  __device__ S g(BatchNormForm form, const OwnParams<L>& own, S t, int u, int v) const {
    const int q = L::kPlanes ? 0 : v;
    const S d = static_cast<S>(dy[u].v[v]);
    if (form == BatchNormForm::kPlain) return d;
    const S passes = form == BatchNormForm::kAddRelu
                         ? static_cast<S>(y[u].v[v])
                         : math::batch_norm_affine(t, own.scale[q], own.bias[q]);
    return math::batch_norm_passed(d, passes);
  }
};

// parts[chunk][channel] = sums over a chunk of packets; g is also written if g_out is not null.
// Threads as ChannelLayout says. Memory bound: 2 * sizeof(T) bytes per element (kAddRelu 3, and 1
// more to write g). Meant to reach 85 % of the copy bandwidth.
template <class L>
__global__ void __launch_bounds__(kReduceBlock, 2)
    sums_kernel(GradSums<typename L::S, 1>* parts, typename L::T* __restrict__ g_out,
                GradInputs<typename L::T> in, ChannelParams<typename L::S> params, L layout) {
  using S = typename L::S;
  using T = typename L::T;
  const OwnParams<L> own(layout, params);
  GradSums<S, L::kChannels> total = {};
  layout.each([&](const auto& offsets, int n) {
    const GradTurn<L> turn(in, offsets, n);
    unrolled<L::kTurn>([&](auto u) {
      if (u >= n) return;
      typename L::Pack passed;
      for (int v = 0; v < L::kV; ++v) {
        const int q = L::kPlanes ? 0 : v;
        const S t = turn.t(own, u, v), g = turn.g(in.form, own, t, u, v);
        total.g[q] += g;
        total.gt[q] += g * t;
        passed.v[v] = static_cast<T>(g);
      }
      if (g_out != nullptr) *reinterpret_cast<typename L::Pack*>(g_out + offsets[u]) = passed;
    });
  });
  total = block_reduce_columns<kReduceBlock>(total, Join{}, layout.width);
  const int64_t group = layout.group();
  if (threadIdx.x >= layout.width || group >= layout.groups) return;
  for (int q = 0; q < L::kChannels; ++q) {
    const int64_t c = group * L::kChannels + q;
    parts[blockIdx.y * layout.channels + c] = {{total.g[q]}, {total.gt[q]}, S(0)};
  }
}

/// What is computed from the sums, [C] each; null if not wanted.
template <class S>
struct GradResults {
  S *dweight, *dbias;
  S *slope, *offset;
};

// Adds up the chunks' sums of each channel in f64, and computes the GradResults from them. Few
// channels per block, so that a thread adds about 8 partials: it takes microseconds.
template <class S>
__global__ void __launch_bounds__(kReduceBlock)
    finish_kernel(GradResults<S> out, const GradSums<S, 1>* parts, ChannelParams<S> params,
                  double count, int64_t channels, int64_t chunks, unsigned width) {
  const unsigned rows = kReduceBlock / width, row = threadIdx.x / width;
  const int64_t c = blockIdx.x * int64_t(width) + threadIdx.x % width;
  GradSums<double, 1> total = {};
  if (c < channels) {
    for (int64_t k = row; k < chunks; k += rows) {
      const auto& part = parts[k * channels + c];
      total.g[0] += static_cast<double>(part.g[0]);
      total.gt[0] += static_cast<double>(part.gt[0]);
    }
  }
  total = block_reduce_columns<kReduceBlock>(total, Join{}, width);
  if (row != 0 || c >= channels) return;
  const double invstd = params.invstd[c], scale = params.scale(c);
  if (out.dbias != nullptr) out.dbias[c] = static_cast<S>(total.g[0]);
  if (out.dweight != nullptr) out.dweight[c] = static_cast<S>(total.gt[0] * invstd);
  if (out.slope == nullptr) return;
  out.slope[c] = static_cast<S>(scale * invstd * invstd * total.gt[0] / count);
  out.offset[c] = static_cast<S>(scale * total.g[0] / count);
}

// dx = scale * g - slope * t - offset; slope and offset are null where the statistics are
// constants. Threads as ChannelLayout says. Memory bound: 3 * sizeof(T) bytes per element (kAddRelu
// 4, unless g is in memory already); meant to reach 90 % of the copy bandwidth.
template <class L>
__global__ void __launch_bounds__(kReduceBlock, 2)
    input_kernel(typename L::T* __restrict__ dx, GradInputs<typename L::T> in,
                 ChannelParams<typename L::S> params, const typename L::S* slopes,
                 const typename L::S* shifts, L layout) {
  using S = typename L::S;
  using T = typename L::T;
  const OwnParams<L> own(layout, params);
  S slope[L::kChannels] = {}, offset[L::kChannels] = {};
  if (slopes != nullptr && layout.group() < layout.groups) {
    for (int q = 0; q < L::kChannels; ++q) {
      slope[q] = slopes[layout.group() * L::kChannels + q];
      offset[q] = shifts[layout.group() * L::kChannels + q];
    }
  }
  layout.each([&](const auto& offsets, int n) {
    const GradTurn<L> turn(in, offsets, n);
    unrolled<L::kTurn>([&](auto u) {
      if (u >= n) return;
      typename L::Pack result;
      for (int v = 0; v < L::kV; ++v) {
        const int q = L::kPlanes ? 0 : v;
        const S t = turn.t(own, u, v), g = turn.g(in.form, own, t, u, v);
        result.v[v] =
            static_cast<T>(math::batch_norm_grad(g, t, own.scale[q], slope[q], offset[q]));
      }
      *reinterpret_cast<typename L::Pack*>(dx + offsets[u]) = result;
    });
  });
}

/// Pass 1, for everything but dx itself. slope and offset may be undefined.
template <class T>
void grad_sums(const BatchNormGrads& grads, const BatchNormCall& call, const Tensor& dy,
               const Tensor& y, const Tensor& slope, const Tensor& offset) {
  using S = ComputeType<T>;
  const int64_t channels = call.x.dim(1);
  if (channels == 0) return;
  const Stream stream = current_stream(call.x.device());
  const ChannelParams<S> params(call);
  const auto data = [](const Tensor& t) { return t.defined() ? t.data<S>() : nullptr; };
  const auto of_type = [](const Tensor& t) { return t.defined() ? t.data<T>() : nullptr; };
  with_layout<T, 2>(call.x, kBatchNormBlocks, {&dy, &y, &grads.dresidual}, [&](const auto& layout) {
    using L = std::remove_cvref_t<decltype(layout)>;
    using Part = GradSums<S, 1>;
    const int64_t bytes = layout.chunks * channels * static_cast<int64_t>(sizeof(Part));
    const Tensor room = empty({bytes}, {.dtype = kU8, .device = call.x.device()});
    Part* parts = static_cast<Part*>(room.raw_data());
    const GradInputs<T> in{call.form, dy.data<T>(), call.x.data<T>(), of_type(y)};
    launch(sums_kernel<L>, layout.grid(), dim3(kReduceBlock), 0, stream, parts,
           of_type(grads.dresidual), in, params, layout);
    LATHE_CUDA_CHECK(cudaGetLastError());
    const GradResults<S> out{data(grads.dweight), data(grads.dbias), data(slope), data(offset)};
    const double count = static_cast<double>(call.x.numel() / channels);
    const unsigned width = kReduceBlock / join_rows(layout.chunks);
    launch(finish_kernel<S>, dim3(static_cast<unsigned>(ceil_div(channels, width))),
           dim3(kReduceBlock), 0, stream, out, parts, params, count, channels, layout.chunks,
           width);
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
}

/// Pass 2.
template <class T>
void grad_input(const Tensor& dx, BatchNormForm form, const BatchNormCall& call, const Tensor& dy,
                const Tensor& y, const Tensor& slope, const Tensor& offset) {
  using S = ComputeType<T>;
  if (dx.numel() == 0) return;
  const S* slopes = slope.defined() ? slope.data<S>() : nullptr;
  const S* shifts = offset.defined() ? offset.data<S>() : nullptr;
  const GradInputs<T> in{form, dy.data<T>(), call.x.data<T>(), y.defined() ? y.data<T>() : nullptr};
  with_layout<T, 2>(call.x, kFillingBlocks, {&dx, &dy, &y}, [&](const auto& layout) {
    using L = std::remove_cvref_t<decltype(layout)>;
    launch(input_kernel<L>, layout.grid(), dim3(kReduceBlock), 0, current_stream(dx.device()),
           dx.data<T>(), in, ChannelParams<S>(call), slopes, shifts, layout);
    LATHE_CUDA_CHECK(cudaGetLastError());
  });
}

template <class T>
void backward(BatchNormGrads& grads, const BatchNormCall& call, const Tensor& dy, const Tensor& y) {
  const TensorOptions options{.dtype = dtype_of<ComputeType<T>>, .device = call.x.device()};
  const Shape per_channel{call.x.dim(1)};
  Tensor slope, offset;
  if (grads.want_residual) grads.dresidual = empty_like(call.x);
  if (grads.want_params) {
    grads.dweight = empty(per_channel, options);
    grads.dbias = empty(per_channel, options);
  }
  if (grads.want_x && call.batch_stats) {
    slope = empty(per_channel, options);
    offset = empty(per_channel, options);
  }
  if (grads.want_params || grads.want_residual || slope.defined()) {
    grad_sums<T>(grads, call, dy, y, slope, offset);
  }
  if (!grads.want_x) return;
  grads.dx = empty_like(call.x);
  if (grads.want_residual) {  // g is already in memory, so no mask is needed any more
    grad_input<T>(grads.dx, BatchNormForm::kPlain, call, grads.dresidual, Tensor(), slope, offset);
  } else {
    grad_input<T>(grads.dx, call.form, call, dy, y, slope, offset);
  }
}

}  // namespace

void batch_norm_backward(BatchNormGrads& grads, const BatchNormCall& call, const Tensor& dy,
                         const Tensor& y) {
  visit_float(call.x.dtype(), "batch_norm",
              [&](auto tag) { backward<typename decltype(tag)::type>(grads, call, dy, y); });
}

}  // namespace lathe::cuda
