// How the CUDA kernels of batch normalisation divide a tensor among threads: one set of kernels for
// NHWC and for row-major tensors. For .cu files only.
#pragma once

#include <utility>

#include "lathe/core/gpu/launch.h"
#include "lathe/core/gpu/packet.cuh"
#include "lathe/core/gpu/strided_index.cuh"
#include "lathe/core/visit.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/reduce_kernels/block_reduce.cuh"
#include "lathe/ops/reduce_kernels/reduce_plan.cuh"

namespace lathe::cuda {

/// Blocks of the kernels that reduce: one wave, 4 for each of an H100/H200's 132 multiprocessors.
inline constexpr int64_t kBatchNormBlocks = 132 * 4;

/// f(0) … f(kCount - 1) with compile-time numbers, so that arrays indexed by them stay in
/// registers.
template <int kCount, class F>
__device__ void unrolled(F f) {
  [&]<int... kNumber>(std::integer_sequence<int, kNumber...>) {
    (f(std::integral_constant<int, kNumber>()), ...);
  }
  (std::make_integer_sequence<int, kCount>());
}

/// Which thread reads what.
///   kPlanes false, [M, C] (NHWC and 2-d): a thread owns kV neighbouring channels, neighbouring
///     threads own neighbouring channels, and a packet is a thread's channels of one pixel.
///   kPlanes true, [N, C, plane]: a block owns one channel, and a packet is kV neighbouring pixels.
///   kTurn: how many packets of each tensor a thread reads before it uses the first.
template <class T_, int kV_, bool kPlanes_, int kTurn_>
struct ChannelLayout {
  using T = T_;
  using S = ComputeType<T>;
  using Pack = Packet<T, kV_>;
  static constexpr int kV = kV_, kTurn = kTurn_;
  static constexpr bool kPlanes = kPlanes_;
  static constexpr int kChannels = kPlanes ? 1 : kV;  // per thread

  int64_t channels;
  int64_t packets;        // per channel
  int64_t groups;         // threads needed to own all channels
  unsigned width;         // neighbouring groups in a block
  int64_t chunks, chunk;  // packets are cut into `chunks` runs of `chunk`, along gridDim.y
  int64_t plane_packets;  // kPlanes: per sample
  bool fits_32_bits;
  Divider<uint32_t> divider;

  /// `blocks` is about the number of blocks to start.
  ChannelLayout(const Tensor& x, int64_t blocks) : channels(x.dim(1)) {
    const int64_t n = x.dim(0), plane = x.numel() / std::max<int64_t>(n * channels, 1);
    plane_packets = plane / kV;
    packets = kPlanes ? n * plane_packets : n * plane;
    groups = channels / kChannels;
    width = kPlanes ? 1 : std::min(power_above(std::max<int64_t>(groups, 1)), 32u);
    const int64_t pass = kReduceBlock / width * kTurn;  // packets that a block reads in one turn
    const int64_t wanted = std::min(blocks / tiles(), ceil_div(packets, pass));
    chunks = std::clamp<int64_t>(wanted, 1, 65535);
    chunk = ceil_div(ceil_div(packets, chunks), pass) * pass;
    chunks = std::max<int64_t>(ceil_div(packets, std::max<int64_t>(chunk, 1)), 1);
    fits_32_bits = packets < INT32_MAX;
    if (plane_packets > 0 && plane_packets < INT32_MAX) divider = Divider<uint32_t>(plane_packets);
  }

  int64_t tiles() const { return std::max<int64_t>(ceil_div(groups, width), 1); }
  dim3 grid() const { return dim3(static_cast<unsigned>(tiles()), static_cast<unsigned>(chunks)); }

  __device__ int64_t group() const { return blockIdx.x * int64_t(width) + threadIdx.x % width; }
  /// The offset of packet i of the thread's channels.
  __device__ int64_t at(int64_t group, int64_t i) const {
    if constexpr (kPlanes) {
      const int64_t n =
          fits_32_bits ? int64_t{divider.quotient(static_cast<uint32_t>(i))} : i / plane_packets;
      return ((n * channels + group) * plane_packets + (i - n * plane_packets)) * kV;
    } else {
      return i * channels + group * kV;
    }
  }

  /// f(offsets, n) for the thread's packets, up to kTurn at a time.
  template <class F>
  __device__ void each(F f) const {
    const int64_t own = group(), rows = kReduceBlock / width;
    if (own >= groups) return;
    const int64_t begin = blockIdx.y * chunk, limit = begin + chunk;
    const int64_t end = limit < packets ? limit : packets;
    for (int64_t i = begin + threadIdx.x / width; i < end; i += kTurn * rows) {
      int64_t offsets[kTurn];
      int n = 0;
      unrolled<kTurn>([&](auto u) {
        offsets[u] = 0;
        if (i + u * rows < end) {
          offsets[u] = at(own, i + u * rows);
          n = u + 1;
        }
      });
      f(offsets, n);
    }
  }
};

/// Loads the first n of the packets at p + offsets.
template <class L>
__device__ void load_packets(typename L::Pack (&to)[L::kTurn], const typename L::T* p,
                             const int64_t (&offsets)[L::kTurn], int n) {
  unrolled<L::kTurn>([&](auto u) {
    if (u < n) to[u] = *reinterpret_cast<const typename L::Pack*>(p + offsets[u]);
  });
}

/// Calls f(layout) with the layout of x: with packets of 16 bytes if x and all of `others` allow
/// them.
template <class T, int kTurn, class F>
void with_layout(const Tensor& x, int64_t blocks, std::initializer_list<const Tensor*> others,
                 F f) {
  constexpr int kWide = 16 / sizeof(T);
  const int64_t c = x.dim(1), plane = x.numel() / std::max<int64_t>(x.dim(0) * c, 1);
  const bool planes = plane != 1 && x.is_contiguous();
  bool wide = (planes ? plane : c) % kWide == 0 && holds_packets<kWide>(x.data<T>());
  for (const Tensor* t : others) {
    wide = wide && (!t->defined() || holds_packets<kWide>(t->data<T>()));
  }
  if (planes) {
    wide ? f(ChannelLayout<T, kWide, true, kTurn>(x, blocks))
         : f(ChannelLayout<T, 1, true, kTurn>(x, blocks));
  } else {
    wide ? f(ChannelLayout<T, kWide, false, kTurn>(x, blocks))
         : f(ChannelLayout<T, 1, false, kTurn>(x, blocks));
  }
}

/// One number per channel, or `absent` for all.
template <class S>
struct ChannelArray {
  const S* data;
  int64_t stride;
  S absent;

  explicit ChannelArray(const Tensor& t, S absent_ = S(0))
      : data(t.defined() ? t.data<S>() : nullptr),
        stride(t.defined() ? t.stride(0) : 0),
        absent(absent_) {}
  __device__ S operator[](int64_t c) const { return data == nullptr ? absent : data[c * stride]; }
};

/// What one normalisation reads per channel.
template <class S>
struct ChannelParams {
  ChannelArray<S> mean, invstd, weight, bias;

  explicit ChannelParams(const BatchNormCall& call)
      : mean(call.mean), invstd(call.invstd), weight(call.weight, S(1)), bias(call.bias) {}
  __device__ S scale(int64_t c) const { return weight[c] * invstd[c]; }
};

/// The same for a thread's own channels, read once.
template <class L>
struct OwnParams {
  using S = typename L::S;
  S mean[L::kChannels], scale[L::kChannels], bias[L::kChannels];

  __device__ OwnParams(const L& layout, const ChannelParams<S>& params) {
    const int64_t group = layout.group();
    for (int q = 0; q < L::kChannels; ++q) {
      const int64_t c = group < layout.groups ? group * L::kChannels + q : 0;
      mean[q] = params.mean[c];
      scale[q] = params.scale(c);
      bias[q] = params.bias[c];
    }
  }
};

}  // namespace lathe::cuda
