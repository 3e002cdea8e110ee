// How the CUDA kernels of batch normalisation divide a tensor among threads: one set of kernels for
// NHWC and for row-major tensors. For .cu files only.
#pragma once

#include <algorithm>
#include <utility>

#include "lathe/core/gpu/launch.h"
#include "lathe/core/gpu/packet.cuh"
#include "lathe/core/gpu/strided_index.cuh"
#include "lathe/core/visit.h"
#include "lathe/ops/batch_norm.h"
#include "lathe/ops/reduce_kernels/block_reduce.cuh"
#include "lathe/ops/reduce_kernels/reduce_split.cuh"

namespace lathe::cuda {

/// f(0) … f(kCount - 1) with compile-time numbers, so that arrays indexed by them stay in
/// registers.
template <int kCount, class F>
__device__ void unrolled(F f) {
  [&]<int... kNumber>(std::integer_sequence<int, kNumber...>) {
    (f(std::integral_constant<int, kNumber>()), ...);
  }
  (std::make_integer_sequence<int, kCount>());
}

// Threads in a block for [M, C]. tools/bench/batch_norm_times.cpp compares 512 with 256.
#ifndef LATHE_BATCH_NORM_THREADS
#  define LATHE_BATCH_NORM_THREADS 512
#endif

/// Which thread reads what. Each multiprocessor gets one block of 16 warps (kPlanes: two of 8): few
/// warps, each with many packets in flight, read as fast as many warps with few, and leave fewer
/// partial results, all of which every block of the second kernel joins. With 64 registers a second
/// block would fit, but then twice as many blocks join twice as many results
/// (docs/results/machine-code.json).
///   kPlanes false, [M, C] (NHWC and 2-d): a thread owns kV neighbouring channels, neighbouring
///     threads own neighbouring channels, and a packet is a thread's channels of one pixel.
///   kPlanes true, [N, C, plane]: a block owns one channel, and a packet is kV neighbouring pixels.
/// gridDim.x goes over tiles of channels. Along gridDim.y the blocks take turns: block k of n has
/// every n-th row of packets, so that all blocks read from one region of memory at a time.
template <class T_, int kV_, bool kPlanes_>
struct ChannelLayout {
  using T = T_;
  using S = ComputeType<T>;
  using Pack = Packet<T, kV_>;
  static constexpr int kV = kV_;
  static constexpr bool kPlanes = kPlanes_;
  static constexpr int kChannels = kPlanes ? 1 : kV;  // per thread
  static constexpr unsigned kBlock = kPlanes ? 256 : LATHE_BATCH_NORM_THREADS;
  static constexpr unsigned kBlocksPerProcessor = 512 / kBlock;
  static constexpr unsigned kMostTile = kPlanes ? 1 : 128 / sizeof(T);  // channels per block

  int64_t channels;
  int64_t packets;      // per channel
  int64_t groups;       // threads needed to own all channels
  unsigned width;       // neighbouring groups in a block
  int64_t chunks;       // gridDim.y
  int64_t turns, rest;  // each row of threads has `turns` packets, and the first `rest` one more
  int64_t full_chunks;  // so many chunks have one more in all of their rows; then one has in some
  double full_count, some_count, least_count;  // numbers per channel of those, of the rest
  int64_t plane_packets;                       // kPlanes: per sample
  bool fits_32_bits;
  Divider<uint32_t> divider;

  /// A block's tile of channels is `tile_bytes` wide, 128 at most.
  ChannelLayout(const Tensor& x, unsigned tile_bytes) : channels(x.dim(1)) {
    const int64_t n = x.dim(0), plane = x.numel() / std::max<int64_t>(n * channels, 1);
    plane_packets = plane / kV;
    packets = kPlanes ? n * plane_packets : n * plane;
    groups = channels / kChannels;
    const unsigned widest = tile_bytes / static_cast<unsigned>(sizeof(T)) / kChannels;
    width = kPlanes ? 1 : std::min(power_above(std::max<int64_t>(groups, 1)), widest);
    const int64_t wave = int64_t{multiprocessors(x.device())} * kBlocksPerProcessor;
    chunks = std::clamp<int64_t>(std::min(wave / tiles(), ceil_div(packets, rows())), 1, 65535);
    turns = packets / (chunks * rows());
    rest = packets - turns * chunks * rows();
    const int64_t numbers = kPlanes ? kV : 1, least = turns * rows();
    full_chunks = rest / rows();
    full_count = static_cast<double>((least + rows()) * numbers);
    some_count = static_cast<double>((least + rest % rows()) * numbers);
    least_count = static_cast<double>(least * numbers);
    fits_32_bits = packets < INT32_MAX;
    if (plane_packets > 0 && plane_packets < INT32_MAX) divider = Divider<uint32_t>(plane_packets);
  }

  int64_t tiles() const { return std::max<int64_t>(ceil_div(groups, width), 1); }
  dim3 grid() const { return dim3(static_cast<unsigned>(tiles()), static_cast<unsigned>(chunks)); }

  LATHE_HD unsigned tile() const { return width * kChannels; }
  LATHE_HD int64_t rows() const { return kBlock / width; }
  __device__ int64_t group() const { return blockIdx.x * int64_t(width) + threadIdx.x % width; }
  /// The thread's row among those of all chunks.
  __device__ int64_t row() const { return blockIdx.y * rows() + threadIdx.x / width; }
  /// Numbers per channel of the thread, and of the block in chunk k.
  __device__ int64_t own_count() const {
    return (turns + (row() < rest ? 1 : 0)) * (kPlanes ? kV : 1);
  }
  __device__ double count(int64_t k) const {
    return k < full_chunks ? full_count : k == full_chunks ? some_count : least_count;
  }
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

  /// f(offsets) for the thread's packets, kTurn at a time as long as there are so many, then one at
  /// a time. kBackwards: from the last to the first.
  template <int kTurn, bool kBackwards, class F>
  __device__ void each(F f) const {
    if (group() >= groups) return;
    const int64_t pass = chunks * rows();
    int left = static_cast<int>(turns) + (row() < rest ? 1 : 0);
    const int64_t begin = kBackwards ? row() + (left - 1) * pass : row();
    // [M, C]: i is an offset already, so that a turn is one addition.
    int64_t i = kPlanes ? begin : at(group(), begin);
    const int64_t step = (kBackwards ? -pass : pass) * (kPlanes ? 1 : channels);
#ifdef __CUDA_ARCH__
#  pragma unroll 1
#endif
    for (; left >= kTurn; left -= kTurn, i += kTurn * step) turn<kTurn>(i, step, f);
#ifdef __CUDA_ARCH__
#  pragma unroll 1
#endif
    for (; left > 0; --left, i += step) turn<1>(i, step, f);
  }

 private:
  template <int kTurn, class F>
  __device__ void turn(int64_t i, int64_t step, F& f) const {
    int64_t offsets[kTurn];
    unrolled<kTurn>(
        [&](auto u) { offsets[u] = kPlanes ? at(group(), i + u * step) : i + u * step; });
    f(offsets);
  }
};

/// The packets at p + offsets.
template <class L, int kTurn>
__device__ void load_packets(typename L::Pack (&to)[kTurn], const typename L::T* p,
                             const int64_t (&offsets)[kTurn]) {
  unrolled<kTurn>(
      [&](auto u) { to[u] = *reinterpret_cast<const typename L::Pack*>(p + offsets[u]); });
}

/// Calls f(layout) with the layout of x: with packets of 16 bytes if x and all of `others` allow
/// them.
template <class T, class F>
void with_layout(const Tensor& x, unsigned tile_bytes, std::initializer_list<const Tensor*> others,
                 F f) {
  constexpr int kWide = 16 / sizeof(T);
  const int64_t c = x.dim(1), plane = x.numel() / std::max<int64_t>(x.dim(0) * c, 1);
  const bool planes = plane != 1 && x.is_contiguous();
  bool wide = (planes ? plane : c) % kWide == 0 && holds_packets<kWide>(x.data<T>());
  for (const Tensor* t : others) {
    wide = wide && (!t->defined() || holds_packets<kWide>(t->data<T>()));
  }
  if (planes) {
    wide ? f(ChannelLayout<T, kWide, true>(x, tile_bytes))
         : f(ChannelLayout<T, 1, true>(x, tile_bytes));
  } else {
    wide ? f(ChannelLayout<T, kWide, false>(x, tile_bytes))
         : f(ChannelLayout<T, 1, false>(x, tile_bytes));
  }
}

/// Two numbers per channel: what a block hands to the kernel that joins the chunks' results.
template <class A>
struct ChannelPair {
  A a, b;
  __device__ void join(const ChannelPair& o) {
    a += o.a;
    b += o.b;
  }
};

/// The sum over all chunks k of part(k, parts[k][c]) for the channels c of the block's tile; thread
/// t < tile gets channel t's. All blocks of a tile do the same work, in the same order: that costs
/// less than another launch, and needs no counter that would have to be zero before.
template <class L, class F>
__device__ ChannelPair<double> sum_chunks(const L& layout, const ChannelPair<typename L::S>* parts,
                                          F part) {
  const unsigned tile = layout.tile();
  const int64_t c = blockIdx.x * int64_t(tile) + threadIdx.x % tile;
  ChannelPair<double> total = {};
  constexpr int kTurn = 4;  // loads in flight
  const int64_t step = L::kBlock / tile, end = c < layout.channels ? layout.chunks : 0;
  for (int64_t k = threadIdx.x / tile; k < end; k += kTurn * step) {
    ChannelPair<typename L::S> some[kTurn];
    unrolled<kTurn>([&](auto u) {
      if (k + u * step < end) some[u] = parts[(k + u * step) * layout.channels + c];
    });
    unrolled<kTurn>([&](auto u) {
      if (k + u * step < end) total.join(part(k + u * step, some[u]));
    });
  }
  return block_reduce_columns<L::kBlock>(total, Join{}, tile);
}

/// Room for a pair per chunk and channel.
template <class L>
Tensor room_for_parts(const L& layout, const Tensor& x) {
  using Pair = ChannelPair<typename L::S>;
  const int64_t bytes = layout.chunks * layout.channels * static_cast<int64_t>(sizeof(Pair));
  return empty({bytes}, {.dtype = kU8, .device = x.device()});
}

/// Of each number of y, as it is rounded, whether math::batch_norm_passed() lets its gradient pass.
template <class S, class T>
__device__ uint8_t passed_bits(const Packet<T, 8>& y) {
  unsigned bits = 0;
  for (unsigned v = 0; v < 8; ++v) bits |= static_cast<S>(y.v[v]) <= S(0) ? 0u : 1u << v;
  return static_cast<uint8_t>(bits);
}

/// Makes room for call.passed, if the call wants it and a packet's bits are a byte.
template <class L>
void make_passed(BatchNormCall& call) {
  if (L::kV != 8 || !call.wants_passed) return;
  call.passed = empty({call.x.numel() / 8}, {.dtype = kU8, .device = call.x.device()});
}

/// f(form) with the form as a compile-time constant: what the others read takes no registers.
template <class F>
void with_form(BatchNormForm form, F f) {
  switch (form) {
    case BatchNormForm::kPlain:
      return f(std::integral_constant<BatchNormForm, BatchNormForm::kPlain>());
    case BatchNormForm::kRelu:
      return f(std::integral_constant<BatchNormForm, BatchNormForm::kRelu>());
    case BatchNormForm::kAddRelu:
      return f(std::integral_constant<BatchNormForm, BatchNormForm::kAddRelu>());
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

  __device__ OwnParams() = default;
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
