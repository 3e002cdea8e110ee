// The pointwise kernels: out[i] = f(a[i], b[i], …) for any strides and broadcasting. For .cu files;
// ops/elementwise_kernels/unary_cuda.cu is the simplest example.
//
//   pointwise<Out>(out, f, Input<A>{a}, Input<B>{b});
//
// f is a small struct with a LATHE_HD operator() from the inputs' stored types to Out. An input may
// be `out` itself: every thread reads its elements before it writes them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>

#include "lathe/core/gpu/dependent_launch.cuh"
#include "lathe/core/gpu/packet.cuh"
#include "lathe/core/gpu/pointwise_part.h"
#include "lathe/core/gpu/strided_index.cuh"
#include "lathe/core/visit.h"

namespace lathe::cuda {

/// Computes f in the compute type and rounds once: Out(f(C(a), C(b), …)).
template <class Out, class F>
struct Rounded {
  F f;
  template <class... T>
  LATHE_HD Out operator()(T... x) const {
    return Out(f(ComputeType<T>(x)...));
  }
};

/// An input of element type T that broadcasts to the output's shape. A 0-d CPU tensor can be used
/// on any device: its number is passed among the kernel's arguments.
template <class T>
struct Input {
  const Tensor& tensor;
};

/// What a kernel reads for one input: elements from `data` on, or `number` if data is null.
template <class T>
struct Elements {
  const T* data;
  T number;

  __device__ T operator[](int32_t offset) const { return data != nullptr ? data[offset] : number; }
};

template <int V, class T>
__device__ Packet<T, V> load_packet(const Elements<T>& x, int32_t offset, bool repeated) {
  if (!repeated) return *reinterpret_cast<const Packet<T, V>*>(x.data + offset);
  Packet<T, V> packet;
  const T one = x[offset];
  for (int v = 0; v < V; ++v) packet.v[v] = one;
  return packet;
}

template <class T, class Offsets, int V>
__device__ Packet<T, V> gather_packet(const Elements<T>& x, const Offsets (&at)[V], int operand) {
  Packet<T, V> packet;
  for (int v = 0; v < V; ++v) packet.v[v] = x[at[v][operand]];
  return packet;
}

template <int V, class Out, class F, class... T>
__device__ Packet<Out, V> map_packets(const F& f, const Packet<T, V>&... x) {
  Packet<Out, V> out;
  for (int v = 0; v < V; ++v) out.v[v] = f(x.v[v]...);
  return out;
}

/// Computes one packet from inputs at their offsets. Bit k of `repeated`: input k is constant.
template <int V, class Out, class F, class Offsets, size_t... K, class... In>
__device__ Packet<Out, V> packet_at(const F& f, const Offsets& at, uint32_t repeated,
                                    std::index_sequence<K...>, const Elements<In>&... in) {
  return map_packets<V, Out>(f, load_packet<V>(in, at[K + 1], (repeated >> K & 1u) != 0)...);
}

template <class Out, class F, class Offsets, int V, size_t... K, class... In>
__device__ Packet<Out, V> packet_from(const F& f, const Offsets (&at)[V], std::index_sequence<K...>,
                                      const Elements<In>&... in) {
  return map_packets<V, Out>(f, gather_packet(in, at, static_cast<int>(K + 1))...);
}

// Every operand is dense along the innermost dimension, or an input constant there. One thread per
// packet of V neighbours in a grid-stride loop. The rest of a one-dimensional nest, fewer than V
// elements, goes to the first threads, one each.
// Memory bound: sizeof(Out) + the dense inputs' sizes per element. It is meant to reach 90 % of the
// copy bandwidth, because all accesses are whole 16-byte words (of the widest type) and nothing is
// read twice.
template <int V, class Out, class F, class... In>
__global__ void pointwise_packet_kernel(Out* out, F f, StridedIndex<1 + sizeof...(In)> index,
                                        uint32_t packets, uint32_t left, uint32_t repeated,
                                        Elements<In>... in) {
  after_previous_kernel();
  constexpr auto kInputs = std::index_sequence_for<In...>{};
  const uint32_t step = gridDim.x * blockDim.x, thread = blockIdx.x * blockDim.x + threadIdx.x;
  for (uint32_t i = thread; i < packets; i += step) {
    const auto at = index(i);
    *reinterpret_cast<Packet<Out, V>*>(out + at[0]) =
        packet_at<V, Out>(f, at, repeated, kInputs, in...);
  }
  if (thread < left) {
    typename StridedIndex<1 + sizeof...(In)>::Offsets at;
    for (int k = 0; k <= static_cast<int>(sizeof...(In)); ++k) {
      at.at[k] =
          static_cast<int32_t>(k > 0 && (repeated >> (k - 1) & 1u) != 0 ? 0 : packets * V + thread);
    }
    out[at[0]] = packet_at<1, Out>(f, at, repeated, kInputs, in...).v[0];
  }
}

// Any strides. Each thread takes four elements at a time, one grid apart, so that enough loads are
// under way. Bound by the 32-byte sectors that a warp touches and by index arithmetic: about 10
// instructions per dimension and element. Dense operands of 4 or more bytes per element reach 80 %
// of the copy bandwidth.
template <class Out, class F, class... In>
__global__ void pointwise_element_kernel(Out* out, F f, StridedIndex<1 + sizeof...(In)> index,
                                         uint32_t n, Elements<In>... in) {
  after_previous_kernel();
  constexpr int kAtOnce = 4;
  const uint32_t step = gridDim.x * blockDim.x;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += kAtOnce * step) {
    typename StridedIndex<1 + sizeof...(In)>::Offsets at[kAtOnce];
    for (uint32_t v = 0; v < kAtOnce; ++v) at[v] = index(i + v * step < n ? i + v * step : i);
    const auto values = packet_from<Out>(f, at, std::index_sequence_for<In...>{}, in...);
    for (uint32_t v = 0; v < kAtOnce; ++v) {
      if (i + v * step < n) out[at[v][0]] = values.v[v];
    }
  }
}

/// Neighbours per packet: 16 bytes of the widest type.
template <class... T>
inline constexpr int kPacketSize = 16 / static_cast<int>(std::max({sizeof(T)...}));

template <class Out, class F, class... In>
void launch_pointwise(const PointwisePart& part, const F& f, const Elements<In>&... in) {
  const auto [grid, block] = launch_1d(part.count);
  Out* const out = static_cast<Out*>(part.data[0]);
  const StridedIndex<1 + sizeof...(In)> index(part.nest);
  if (part.packed) {
    launch_dependent(pointwise_packet_kernel<kPacketSize<Out, In...>, Out, F, In...>, grid, block,
                     0, part.stream, out, f, index, part.count, part.left, part.repeated, in...);
  } else {
    launch_dependent(pointwise_element_kernel<Out, F, In...>, grid, block, 0, part.stream, out, f,
                     index, part.count, in...);
  }
}

/// What the kernel reads for input k of a part.
template <class T>
Elements<T> elements(const PointwisePart& part, size_t k, const Tensor& input) {
  const T* const data = static_cast<const T*>(part.data[k + 1]);
  return {data, data != nullptr ? T{} : *static_cast<const T*>(input.raw_data())};
}

/// out = f(in…). `out` must not overlap itself, nor an input unless they are the same view.
template <class Out, class F, class... In>
void pointwise(const Tensor& out, F f, Input<In>... in) {
  const PointwiseOperand operands[] = {{out, dtype_of<Out>}, {in.tensor, dtype_of<In>}...};
  each_pointwise_part(operands, kPacketSize<Out, In...>, [&](const PointwisePart& part) {
    [&]<size_t... K>(std::index_sequence<K...>) {
      launch_pointwise<Out>(part, f, elements<In>(part, K, in.tensor)...);
    }
    (std::index_sequence_for<In...>{});
  });
}

}  // namespace lathe::cuda
