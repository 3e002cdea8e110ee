// CUDA's vocabulary for the host compiler, so that the tests can run the kernels of ops/*_cuda.cu
// without a GPU.
//
// Blocks run one after another. The threads of a block are fibers on one host thread: each runs
// until it waits at a barrier (__syncthreads, a warp shuffle) or ends. A barrier that some threads
// of the block never reach, or that they reach at different places, is an error. Fibers are
// announced to the sanitizers; for ThreadSanitizer the switches carry no synchronisation, so that
// only barriers order memory and a missing __syncthreads is reported as a race.
#pragma once

#include <cstdint>
#include <cstring>
#include <source_location>
#include <type_traits>
#include <vector>

#include "lathe/core/function_ref.h"

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static  // blocks run one at a time, so one instance per kernel is the block's
#define LATHE_DYNAMIC_SHARED(T, name) \
  T* const name = static_cast<T*>(::lathe::emulation::dynamic_shared())

struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

namespace lathe::emulation {

struct Position {
  dim3 thread, block, block_size, grid_size;
};
/// Of the fiber that runs now.
const Position& position() noexcept;

/// Runs `body` once per thread of every block.   throws: what body throws; StateError where threads
/// of a block diverge at a barrier, naming both places.
/// `kernel` is noted as run; see launched_kernels().
void run_grid(void (*kernel)(), dim3 grid, dim3 block, size_t shared_bytes,
              FunctionRef<void()> body);

/// The kernels that ran so far. With LATHE_LAUNCHED_KERNELS=FILE in the environment, their
/// addresses relative to the program are written to FILE when the program ends
/// (tests/check_kernels.py).
const std::vector<void (*)()>& launched_kernels();

void* dynamic_shared() noexcept;
void block_barrier(std::source_location place);
/// Deposits `value` for the warp, waits for all of the warp's lanes in `mask`, → the word of lane
/// `source` (own if out of range or not in the mask).
uint64_t exchange(unsigned mask, uint64_t value, int source, std::source_location place);
int lane() noexcept;

template <unsigned dim3::*Axis, dim3 Position::*Which>
struct Coordinate {
  operator unsigned() const noexcept { return position().*Which.*Axis; }
};
template <dim3 Position::*Which>
struct Coordinates {
  [[no_unique_address]] Coordinate<&dim3::x, Which> x;
  [[no_unique_address]] Coordinate<&dim3::y, Which> y;
  [[no_unique_address]] Coordinate<&dim3::z, Which> z;
};

template <class T>
T shuffle(unsigned mask, T value, int source, std::source_location place) {
  static_assert(sizeof(T) <= sizeof(uint64_t));
  uint64_t word = 0;
  std::memcpy(&word, &value, sizeof(T));
  word = exchange(mask, word, source, place);
  std::memcpy(&value, &word, sizeof(T));
  return value;
}

}  // namespace lathe::emulation

inline constexpr lathe::emulation::Coordinates<&lathe::emulation::Position::thread> threadIdx{};
inline constexpr lathe::emulation::Coordinates<&lathe::emulation::Position::block> blockIdx{};
inline constexpr lathe::emulation::Coordinates<&lathe::emulation::Position::block_size> blockDim{};
inline constexpr lathe::emulation::Coordinates<&lathe::emulation::Position::grid_size> gridDim{};

using EmulationPlace = std::source_location;

inline void __syncthreads(EmulationPlace place = EmulationPlace::current()) {
  lathe::emulation::block_barrier(place);
}
template <class T>
T __shfl_sync(unsigned mask, T v, int source, int = 32,
              EmulationPlace place = EmulationPlace::current()) {
  return lathe::emulation::shuffle(mask, v, source, place);
}
template <class T>
T __shfl_down_sync(unsigned mask, T v, unsigned delta, int = 32,
                   EmulationPlace place = EmulationPlace::current()) {
  return lathe::emulation::shuffle(mask, v, lathe::emulation::lane() + static_cast<int>(delta),
                                   place);
}
template <class T>
T __shfl_up_sync(unsigned mask, T v, unsigned delta, int = 32,
                 EmulationPlace place = EmulationPlace::current()) {
  return lathe::emulation::shuffle(mask, v, lathe::emulation::lane() - static_cast<int>(delta),
                                   place);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T v, int lanes, int = 32,
                  EmulationPlace place = EmulationPlace::current()) {
  return lathe::emulation::shuffle(mask, v, lathe::emulation::lane() ^ lanes, place);
}
inline void __syncwarp(unsigned mask = 0xffffffffu,
                       EmulationPlace place = EmulationPlace::current()) {
  lathe::emulation::exchange(mask, 0, 0, place);
}

template <class T>
T atomicAdd(T* address, T value) {
  if constexpr (std::is_integral_v<T>) {
    return __atomic_fetch_add(address, value, __ATOMIC_RELAXED);
  } else {
    T before, after;
    __atomic_load(address, &before, __ATOMIC_RELAXED);
    do {
      after = before + value;
    } while (!__atomic_compare_exchange(address, &before, &after, false, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED));
    return before;
  }
}

template <class T>
T atomicMax(T* address, T value) {
  T before = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (before < value && !__atomic_compare_exchange_n(address, &before, value, false,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return before;
}

// Releases what was written before, as the fence does that kernels put in front of it.
inline unsigned atomicExch(unsigned* address, unsigned value) {
  return __atomic_exchange_n(address, value, __ATOMIC_ACQ_REL);
}
inline void __threadfence_system() {}

inline unsigned atomicCAS(unsigned* address, unsigned expected, unsigned desired) {
  __atomic_compare_exchange_n(address, &expected, desired, false, __ATOMIC_RELAXED,
                              __ATOMIC_RELAXED);
  return expected;
}
