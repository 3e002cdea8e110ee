// Neighbouring elements that a kernel loads and stores as one. For .cu files.
#pragma once

#include <cstdint>

#include "lathe/core/config.h"

namespace lathe::cuda {

/// V neighbours; one access of the whole packet needs memory aligned to it. V is a power of two.
template <class T, int V>
struct alignas(V * sizeof(T)) Packet {
  T v[V];
};

/// True if packets of V elements can be accessed at `p`; always for null, which is not accessed.
template <int V, class T>
LATHE_HD bool holds_packets(const T* p) {
  return reinterpret_cast<uintptr_t>(p) % sizeof(Packet<T, V>) == 0;
}

}  // namespace lathe::cuda
