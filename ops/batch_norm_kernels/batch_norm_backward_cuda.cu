// CUDA kernels of batch normalisation, backward: one pass for the sums of each chunk, and one that
// joins them and computes dx. Sums are f32 within a block and f64 between blocks. combine_kernel
// computes dx from sums that cuDNN has made (ops/conv/cudnn/batch_norm_conv2d_cudnn.cpp).
// Contracts: batch_norm.h; arithmetic: batch_norm_math.h.
#include "lathe/core/gpu/dependent_launch.cuh"
#include "lathe/core/visit.h"
#include "lathe/ops/batch_norm_kernels/batch_norm_layout.cuh"
#include "lathe/ops/batch_norm_kernels/batch_norm_math.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/memory_format.h"

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

/// What a gradient kernel reads. Only kAddRelu has y or `passed`, BatchNormCall's, which stands for
/// y where it is not null. The gradient is dy, or dy + second unless that is null: where two ops
/// used y, their gradients are added here.
template <class T>
struct GradInputs {
  bool per_image = false;     // dy has one number per image and channel, the same for all pixels
  Divider<uint32_t> image{};  // of an offset in packets, then: the image's number
  const T *dy, *second, *x, *y;
  const uint8_t* passed = nullptr;
};

/// The packets of one turn: t = x - mean and g = the gradient where the form passes it.
template <class L, BatchNormForm kForm, int kTurn>
struct GradTurn {
  using S = typename L::S;
  static constexpr bool kMayHaveBits =
      kForm == BatchNormForm::kAddRelu && sizeof(typename L::T) == 2;
  typename L::Pack dy[kTurn], second[kTurn], x[kTurn], y[kTurn];
  unsigned bits[kTurn];  // those of `passed` for the packet, from bit 0 on

  __device__ GradTurn(const L& layout, const GradInputs<typename L::T>& in,
                      const int64_t (&offsets)[kTurn]) {
    load_gradient(layout, in, offsets);
    load_packets<L>(x, in.x, offsets);
    if (in.second != nullptr) load_packets<L>(second, in.second, offsets);
    if constexpr (kForm == BatchNormForm::kAddRelu) load_relu(in, offsets);
  }
  /// What says which numbers relu passed.
  __device__ void load_relu(const GradInputs<typename L::T>& in, const int64_t (&offsets)[kTurn]) {
    if constexpr (kMayHaveBits) {
      if (in.passed != nullptr) {
        unrolled<kTurn>([&](auto u) {
          bits[u] = in.passed[offsets[u] / 8] >> static_cast<int>(offsets[u] % 8);
        });
        return;
      }
    }
    load_packets<L>(y, in.y, offsets);
  }
  __device__ void load_gradient(const L& layout, const GradInputs<typename L::T>& in,
                                const int64_t (&offsets)[kTurn]) {
    if constexpr (kForm == BatchNormForm::kAddRelu && !L::kPlanes) {
      if (in.per_image) {
        int64_t places[kTurn];
        unrolled<kTurn>([&](auto u) {
          const auto packet = static_cast<uint32_t>(offsets[u] / L::kV);
          places[u] = in.image.quotient(packet) * layout.channels + layout.group() * L::kV;
        });
        return load_packets<L>(dy, in.dy, places);
      }
    }
    load_packets<L>(dy, in.dy, offsets);
  }
  __device__ S t(const OwnParams<L>& own, int u, int v) const {
    return static_cast<S>(x[u].v[v]) - own.mean[L::kPlanes ? 0 : v];
  }
  __device__ S g(const GradInputs<typename L::T>& in, const OwnParams<L>& own, S t, int u,
                 int v) const {
    const int q = L::kPlanes ? 0 : v;
    S d = static_cast<S>(dy[u].v[v]);
    if (in.second != nullptr) d += static_cast<S>(second[u].v[v]);
    if constexpr (kMayHaveBits) {
      if (in.passed != nullptr) return (bits[u] >> v & 1) != 0 ? d : S(0);
    }
    if constexpr (kForm == BatchNormForm::kAddRelu) {
      return math::batch_norm_passed(d, static_cast<S>(y[u].v[v]));
    } else if constexpr (kForm == BatchNormForm::kRelu) {
      return math::batch_norm_passed(d, math::batch_norm_affine(t, own.scale[q], own.bias[q]));
    } else {
      return d;
    }
  }
};

// parts[chunk][channel] = sums over a chunk of packets; g is also written if g_out is not null.
// g_out may be in.dy: a thread reads a packet before it writes it. Threads as ChannelLayout says.
// Memory bound: 2 * sizeof(T) bytes per element (kAddRelu 3, and 1 more each for a second gradient
// and to write g).
template <class L, BatchNormForm kForm>
__global__ void __launch_bounds__(L::kBlock, L::kBlocksPerProcessor)
    sums_kernel(ChannelPair<typename L::S>* parts, typename L::T* g_out,
                GradInputs<typename L::T> in, ChannelParams<typename L::S> params, L layout) {
  after_previous_kernel();
  using S = typename L::S;
  const OwnParams<L> own(layout, params);
  GradSums<S, L::kChannels> total = {};
  layout.template each<2, false>([&]<int kTurn>(const int64_t(&offsets)[kTurn]) {
    const GradTurn<L, kForm, kTurn> turn(layout, in, offsets);
    unrolled<kTurn>([&](auto u) {
      S passed[L::kV];
      for (int v = 0; v < L::kV; ++v) {
        const int q = L::kPlanes ? 0 : v;
        const S t = turn.t(own, u, v), g = turn.g(in, own, t, u, v);
        total.g[q] += g;
        total.gt[q] = math::batch_norm_multiply_add(g, t, total.gt[q]);
        passed[v] = g;
      }
      if constexpr (kForm == BatchNormForm::kAddRelu) {  // the others have no residual
        if (g_out != nullptr) store_rounded(g_out + offsets[u], passed);
      }
    });
  });
  total = block_reduce_columns<L::kBlock>(total, Join{}, layout.width);
  const int64_t group = layout.group();
  if (threadIdx.x >= layout.width || group >= layout.groups) return;
  for (int q = 0; q < L::kChannels; ++q) {
    const int64_t c = group * L::kChannels + q;
    parts[blockIdx.y * layout.channels + c] = {total.g[q], total.gt[q]};
  }
}

/// The chunks' sums and what is computed from them: [C] each, null if not wanted.
template <class S>
struct GradParts {
  const ChannelPair<S>* parts;  // null if no sums are wanted
  double share;                 // 1 / numbers per channel, 0 for none
  bool batch_stats;             // dx depends on the sums
  S *dweight, *dbias;
};

/// Slope and offset (see math::batch_norm_grad) of the thread's channels.
template <class L>
struct OwnSlopes {
  typename L::S slope[L::kChannels], offset[L::kChannels];
};

/// Joins the sums of the block's tile. The first block of each tile writes dweight and dbias.
template <class L>
__device__ OwnSlopes<L> join_sums(const L& layout, const GradParts<typename L::S>& grads,
                                  const ChannelParams<typename L::S>& params) {
  using S = typename L::S;
  OwnSlopes<L> own = {};
  if (grads.parts == nullptr) return own;
  LATHE_SHARED(S[L::kMostTile], slope);
  LATHE_SHARED(S[L::kMostTile], offset);
  const unsigned t = threadIdx.x, tile = layout.tile();
  const int64_t c = blockIdx.x * int64_t(tile) + t % tile;
  const bool finishes = t < tile && c < layout.channels;
  const double invstd = params.invstd[finishes ? c : 0], scale = params.scale(finishes ? c : 0);
  const auto total = sum_chunks(layout, grads.parts, [](int64_t, const ChannelPair<S>& part) {
    return ChannelPair<double>{static_cast<double>(part.a), static_cast<double>(part.b)};
  });
  if (finishes) {
    slope[t] = static_cast<S>(scale * invstd * invstd * total.b * grads.share);
    offset[t] = static_cast<S>(scale * total.a * grads.share);
    if (blockIdx.y == 0 && grads.dbias != nullptr) grads.dbias[c] = static_cast<S>(total.a);
    if (blockIdx.y == 0 && grads.dweight != nullptr) {
      grads.dweight[c] = static_cast<S>(total.b * invstd);
    }
  }
  __syncthreads();
  if (!grads.batch_stats) return own;
  for (int q = 0; q < L::kChannels; ++q) {
    const unsigned at = t % layout.width * L::kChannels + q;
    own.slope[q] = slope[at];
    own.offset[q] = offset[at];
  }
  return own;
}

// dweight and dbias alone, where no dx is wanted. Latency bound.
template <class L>
__global__ void __launch_bounds__(L::kBlock)
    params_kernel(GradParts<typename L::S> grads, ChannelParams<typename L::S> params, L layout) {
  after_previous_kernel();
  join_sums(layout, grads, params);
}

// Joins the sums; then dx = scale * g - slope * t - offset, from the last packet to the first: the
// cache holds the last of what the sums have just read. Threads as ChannelLayout says. Memory
// bound: 3 * sizeof(T) bytes per element (kAddRelu and a second gradient one more each, unless g is
// in memory already); meant to reach the copy bandwidth.
template <class L, BatchNormForm kForm>
__global__ void __launch_bounds__(L::kBlock, L::kBlocksPerProcessor)
    input_kernel(typename L::T* __restrict__ dx, GradInputs<typename L::T> in,
                 GradParts<typename L::S> grads, ChannelParams<typename L::S> params, L layout) {
  after_previous_kernel();
  using S = typename L::S;
  const OwnParams<L> own(layout, params);  // first, so that their reads overlap with the join
  const OwnSlopes<L> slopes = join_sums(layout, grads, params);
  layout.template each<2, true>([&]<int kTurn>(const int64_t(&offsets)[kTurn]) {
    const GradTurn<L, kForm, kTurn> turn(layout, in, offsets);
    unrolled<kTurn>([&](auto u) {
      S result[L::kV];
      for (int v = 0; v < L::kV; ++v) {
        const int q = L::kPlanes ? 0 : v;
        const S t = turn.t(own, u, v), g = turn.g(in, own, t, u, v);
        result[v] = math::batch_norm_grad(g, t, own.scale[q], slopes.slope[q], slopes.offset[q]);
      }
      store_rounded(dx + offsets[u], result);
    });
  });
}

// dx = g_factor * g + x_factor * x + constant. Threads as ChannelLayout says. Memory bound:
// 3 * sizeof(T) bytes per element; meant to reach the copy bandwidth.
template <class L>
__global__ void __launch_bounds__(L::kBlock, L::kBlocksPerProcessor)
    combine_kernel(typename L::T* __restrict__ dx, const typename L::T* __restrict__ g,
                   const typename L::T* __restrict__ x, const typename L::S* g_factors,
                   const typename L::S* x_factors, const typename L::S* constants, L layout) {
  after_previous_kernel();
  using S = typename L::S;
  S g_factor[L::kChannels], x_factor[L::kChannels], constant[L::kChannels];
  const int64_t group = layout.group();
  for (int q = 0; q < L::kChannels; ++q) {
    const int64_t c = group < layout.groups ? group * L::kChannels + q : 0;
    g_factor[q] = g_factors[c];
    x_factor[q] = x_factors[c];
    constant[q] = constants[c];
  }
  layout.template each<2, true>([&]<int kTurn>(const int64_t(&offsets)[kTurn]) {
    typename L::Pack gs[kTurn], xs[kTurn];
    load_packets<L>(gs, g, offsets);
    load_packets<L>(xs, x, offsets);
    unrolled<kTurn>([&](auto u) {
      for (int v = 0; v < L::kV; ++v) {
        const int q = L::kPlanes ? 0 : v;
        const S linear = x_factor[q] * static_cast<S>(xs[u].v[v]) + constant[q];
        gs[u].v[v] = static_cast<typename L::T>(g_factor[q] * static_cast<S>(gs[u].v[v]) + linear);
      }
      store_packet(dx + offsets[u], gs[u]);
    });
  });
}

/// True for the gradient of a mean over the pixels: [N, C] dense, expanded.
bool is_per_image(const Tensor& dy) {
  return dy.ndim() == 4 && dy.numel() > 0 && dy.dim(2) * dy.dim(3) > 1 && dy.stride(2) == 0 &&
         dy.stride(3) == 0 && dy.stride(1) == 1 && dy.stride(0) == dy.dim(1);
}

/// Both passes, with the layout that all tensors allow.
template <class L>
void run_passes(const L& layout, const BatchNormGrads& grads, const BatchNormCall& call,
                const Tensor& dy, const Tensor& y, bool sums) {
  using S = typename L::S;
  using T = typename L::T;
  const Stream stream = current_stream(call.x.device());
  const ChannelParams<S> params(call);
  const auto data = [](const Tensor& t) { return t.defined() ? t.data<S>() : nullptr; };
  const auto of_type = [](const Tensor& t) { return t.defined() ? t.data<T>() : nullptr; };
  BatchNormForm form = call.form;
  GradInputs<T> in{.dy = dy.data<T>(),
                   .second = of_type(grads.second_dy),
                   .x = call.x.data<T>(),
                   .y = of_type(y),
                   .passed = call.passed.defined() ? call.passed.data<uint8_t>() : nullptr};
  if (is_per_image(dy)) {
    in.per_image = true;
    in.image = Divider<uint32_t>(dy.dim(2) * dy.dim(3) * layout.channels / L::kV);
  }
  const double count = static_cast<double>(call.x.numel() / layout.channels);
  GradParts<S> parts{nullptr, count > 0 ? 1 / count : 0, call.batch_stats, data(grads.dweight),
                     data(grads.dbias)};
  Tensor room;
  if (sums) {
    room = room_for_parts(layout, call.x);
    auto* const pairs = static_cast<ChannelPair<S>*>(room.raw_data());
    parts.parts = pairs;
    with_form(form, [&](auto known) {
      launch_dependent(sums_kernel<L, known()>, layout.grid(), dim3(L::kBlock), 0, stream, pairs,
                       of_type(grads.dresidual), in, params, layout);
    });
    LATHE_CUDA_CHECK(cudaGetLastError());
  }
  if (grads.dresidual.defined()) {  // g is already in memory, so no mask is needed any more
    form = BatchNormForm::kPlain;
    in.per_image = false;
    in.dy = grads.dresidual.data<T>();
    in.second = in.y = nullptr;
    in.passed = nullptr;
  }
  if (grads.want_x) {
    with_form(form, [&](auto known) {
      launch_dependent(input_kernel<L, known()>, layout.grid(), dim3(L::kBlock), 0, stream,
                       grads.dx.data<T>(), in, parts, params, layout);
    });
  } else if (grads.want_params) {
    launch_dependent(params_kernel<L>, dim3(layout.grid().x), dim3(L::kBlock), 0, stream, parts,
                     params, layout);
  }
  LATHE_CUDA_CHECK(cudaGetLastError());
}

/// Where the sums write the gradient for the residual, only they read dy. That of the last block of
/// a ResNet need not be in memory for each pixel, then.
bool reads_expanded(const BatchNormGrads& grads, const BatchNormCall& call, const Tensor& dy) {
  return is_per_image(dy) && call.form == BatchNormForm::kAddRelu && grads.want_residual &&
         !call.x.is_contiguous() && dy.numel() < INT32_MAX;
}

}  // namespace

void batch_norm_backward(BatchNormGrads& grads, const BatchNormCall& call, const Tensor& dy_in,
                         const Tensor& y) {
  const int64_t channels = call.x.dim(1);
  const Tensor dy =
      reads_expanded(grads, call, dy_in) ? dy_in : contiguous(dy_in, memory_format_of(call.x));
  const DType wide = call.x.dtype() == kF64 ? kF64 : kF32;
  const auto place = [&](const Tensor& t, bool is_free) {
    return is_free ? t : empty_like(call.x);
  };
  // The sums write g, and the kernel of dx reads no other gradient then.
  const bool has_g = grads.want_residual && call.form == BatchNormForm::kAddRelu;
  const Tensor& second = grads.second_dy;
  if (grads.want_x) grads.dx = place(second, has_g && second.defined() && grads.second_is_free);
  if (grads.want_residual) grads.dresidual = place(dy, has_g && grads.dy_is_free);
  if (grads.want_params) {
    grads.dweight = empty({channels}, {.dtype = wide, .device = call.x.device()});
    grads.dbias = empty({channels}, {.dtype = wide, .device = call.x.device()});
  }
  if (channels == 0) return;
  const bool sums = grads.want_params || grads.want_residual || (grads.want_x && call.batch_stats);
  visit_float(call.x.dtype(), "batch_norm", [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr unsigned kTile = 128;
    with_layout<T>(call.x, kTile, {&dy, &grads.second_dy, &y, &grads.dx, &grads.dresidual},
                   [&](const auto& layout) { run_passes(layout, grads, call, dy, y, sums); });
  });
}

Tensor batch_norm_combine(const BatchNormCombined& in) {
  const Tensor dx = empty_like(in.x);
  if (dx.numel() == 0) return dx;
  visit_float(in.x.dtype(), "batch_norm", [&](auto tag) {
    using T = typename decltype(tag)::type;
    constexpr unsigned kTile = 128;
    with_layout<T>(in.x, kTile, {&in.g, &dx}, [&](const auto& layout) {
      using L = std::remove_cvref_t<decltype(layout)>;
      using S = typename L::S;
      launch_dependent(combine_kernel<L>, layout.grid(), dim3(L::kBlock), 0,
                       current_stream(dx.device()), dx.data<T>(), in.g.data<T>(), in.x.data<T>(),
                       in.g_factor.template data<S>(), in.x_factor.template data<S>(),
                       in.constant.template data<S>(), layout);
      LATHE_CUDA_CHECK(cudaGetLastError());
    });
  });
  return dx;
}

}  // namespace lathe::cuda
