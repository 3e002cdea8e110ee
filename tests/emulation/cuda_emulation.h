// CUDA's vocabulary for the host compiler, so that the tests can run the kernels of ops/*_cuda.cu
// without a GPU.
//
// The threads of a block are fibers on one host thread: each runs until it waits at a barrier
// (__syncthreads, a warp shuffle) or ends. A barrier that some threads of the block never reach, or
// that they reach at different places, is an error. Blocks run in an order that is drawn by lot,
// one after another or some at a time; so do the threads of a block between two barriers
// (schedule.h). Fibers are announced to the sanitizers; for ThreadSanitizer the switches carry no
// synchronisation, so that only barriers order memory and a missing __syncthreads is reported as a
// race.
//
// Each block has shared memory of its own. All of its bytes are 0xFF when the block begins, NaN in
// every floating-point type. Writing beyond a variable is an error that names it, when the block
// ends.
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
// LATHE_SHARED(T, name), LATHE_DYNAMIC_SHARED(T, name): see core/gpu/launch.h. The lambda has a
// type of its own for each declaration, in each instance of a template.
#define LATHE_SHARED(T, name) auto& name = ::lathe::emulation::shared_variable<T>(#name, [] {})
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
/// Of the thread that runs now.
unsigned coordinate(dim3 Position::*which, unsigned dim3::*axis) noexcept;

/// Where the variable of one declaration is in the shared memory of each block of a launch.
struct SharedPlace {
  uint64_t launch = 0;
  size_t offset = 0;
};
/// The variable of the block that runs now. `place` belongs to its declaration.   throws:
/// StateError if there is no room.
void* shared_variable(SharedPlace& place, size_t bytes, size_t alignment, const char* name);
template <class T, class Declaration>
T& shared_variable(const char* name, Declaration) {
  static_assert(std::is_trivially_copyable_v<T>, "shared memory holds no objects");
  static constinit SharedPlace place;
  return *static_cast<T*>(shared_variable(place, sizeof(T), alignof(T), name));
}
void* dynamic_shared() noexcept;

/// Runs `body` once per thread of every block.   throws: what body throws; StateError where threads
/// of a block diverge at a barrier, naming both places, and where a block wrote beyond a variable
/// in shared memory. `kernel` is noted as run; see launched_kernels().
void run_grid(void (*kernel)(), dim3 grid, dim3 block, size_t shared_bytes,
              FunctionRef<void()> body);

/// The kernels that ran so far. With LATHE_LAUNCHED_KERNELS=FILE in the environment, their
/// addresses relative to the program are written to FILE when the program ends
/// (tests/check_kernels.py).
const std::vector<void (*)()>& launched_kernels();

void block_barrier(std::source_location place);
/// At an atomic operation: it is looked at (kernel_access.h), and other threads may come first, if
/// blocks take turns.
void before_atomic(const void* address, size_t bytes) noexcept;
/// Around a kernel, by the thread that runs it; see kernel_access.h.
void watch_kernel(bool runs) noexcept;
/// What the thread wrote before its fence is seen by threads after theirs.
void fence() noexcept;
/// Deposits `value` for the warp, waits for all of the warp's lanes in `mask`, → the word of lane
/// `source` (own if out of range or not in the mask).
uint64_t exchange(unsigned mask, uint64_t value, int source, std::source_location place);
int lane() noexcept;

template <unsigned dim3::*Axis, dim3 Position::*Which>
struct Coordinate {
  operator unsigned() const noexcept { return coordinate(Which, Axis); }
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

// The compiler does not announce what these access: before_atomic() does.
#if defined(__clang__)
#  define LATHE_ATOMIC __attribute__((no_sanitize("coverage"), noinline))  // else in its caller
#else
#  define LATHE_ATOMIC __attribute__((no_sanitize("kernel-address")))
#endif

template <class T>
LATHE_ATOMIC T atomicAdd(T* address, T value) {
  lathe::emulation::before_atomic(address, sizeof *address);
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
LATHE_ATOMIC T atomicMax(T* address, T value) {
  lathe::emulation::before_atomic(address, sizeof *address);
  T before = __atomic_load_n(address, __ATOMIC_RELAXED);
  while (before < value && !__atomic_compare_exchange_n(address, &before, value, false,
                                                        __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  return before;
}

// Releases what was written before, as the fence does that kernels put in front of it.
LATHE_ATOMIC inline unsigned atomicExch(unsigned* address, unsigned value) {
  lathe::emulation::before_atomic(address, sizeof *address);
  return __atomic_exchange_n(address, value, __ATOMIC_ACQ_REL);
}
inline void __threadfence() { lathe::emulation::fence(); }
inline void __threadfence_system() { lathe::emulation::fence(); }

LATHE_ATOMIC inline unsigned atomicCAS(unsigned* address, unsigned expected, unsigned desired) {
  lathe::emulation::before_atomic(address, sizeof *address);
  __atomic_compare_exchange_n(address, &expected, desired, false, __ATOMIC_RELAXED,
                              __ATOMIC_RELAXED);
  return expected;
}
