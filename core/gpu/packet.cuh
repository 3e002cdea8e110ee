// Packet: neighbouring elements that a kernel loads and stores in one access. For .cu files.
#pragma once

#include <cstdint>

#include "lathe/core/config.h"

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

}  // namespace lathe::cuda
