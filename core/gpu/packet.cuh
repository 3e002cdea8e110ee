// Packet: neighbouring elements that a kernel loads and stores in one access. For .cu files.
#pragma once

#include <cstdint>
#include <type_traits>

#include "lathe/core/config.h"
#include "lathe/core/half.h"

namespace lathe::cuda {

/// V neighbours, a power of two. One access of the whole packet needs memory aligned to its size.
template <class T, int V>
struct alignas(V * sizeof(T)) Packet {
  T v[V];
};

/// True if packets of V elements can be accessed at `p`; true for null, which is never accessed.
template <int V, class T>
LATHE_HD bool holds_packets(const T* p) {
  return reinterpret_cast<uintptr_t>(p) % sizeof(Packet<T, V>) == 0;
}

/// Stores a packet in one access. nvcc cuts the assignment of a struct of computed halves into
/// stores of 2 or 4 bytes, also when it goes through a vector; hence the instruction itself.
template <class T, int V>
LATHE_HD void store_packet(T* to, const Packet<T, V>& packet) {
#ifdef __CUDA_ARCH__
  if constexpr (sizeof(packet) == 16) {
    unsigned words[4];
    __builtin_memcpy(words, &packet, sizeof(words));
    asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
                 "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
                 : "memory");
    return;
  }
#endif
  *reinterpret_cast<Packet<T, V>*>(to) = packet;
}

/// The numbers, rounded to T. Halves are rounded two by an instruction.
template <class T, int V, class S>
LATHE_HD Packet<T, V> rounded(const S (&values)[V]) {
  Packet<T, V> packet;
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
  constexpr bool kPairs = std::is_same_v<S, float> && sizeof(T) == 2 && V % 2 == 0;
#else
  constexpr bool kPairs = false;
#endif
  if constexpr (kPairs) {
    unsigned words[V / 2];
    for (int i = 0; i < V / 2; ++i) {
      const S low = values[2 * i], high = values[2 * i + 1];
      if constexpr (std::is_same_v<T, Half>) {
        asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(words[i]) : "f"(high), "f"(low));
      } else {
        asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(words[i]) : "f"(high), "f"(low));
      }
    }
    __builtin_memcpy(&packet, words, sizeof(packet));
  } else {
    for (int v = 0; v < V; ++v) packet.v[v] = static_cast<T>(values[v]);
  }
  return packet;
}

/// Stores the numbers, rounded to T, as a packet.
template <class T, int V, class S>
LATHE_HD void store_rounded(T* to, const S (&values)[V]) {
  store_packet(to, rounded<T>(values));
}

}  // namespace lathe::cuda
