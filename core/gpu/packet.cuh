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

}  // namespace lathe::cuda
