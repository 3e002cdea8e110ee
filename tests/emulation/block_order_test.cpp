// What the emulated GPU does in another order each time, and the faults in kernels that this shows:
// shared memory of an earlier block, writes beyond it, blocks that do not wait for each other,
// launches beyond the limits.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "launch_limits.h"
#include "run_now.h"
#include "schedule.h"

using namespace lathe;
using emulation::ScheduleScope;
using lathe::test::run_now;

namespace {

__global__ void arrival_kernel(unsigned* next, unsigned* order) {
  if (threadIdx.x == 0) order[atomicAdd(next, 1u)] = blockIdx.x;
}

std::vector<unsigned> order_of_blocks(uint64_t seed, unsigned resident) {
  const ScheduleScope scope({.seed = seed, .resident = resident});
  unsigned next = 0;
  std::vector<unsigned> order(50);
  run_now(arrival_kernel, dim3(50), dim3(3), 0, &next, order.data());
  return order;
}

__global__ void first_thread_kernel(unsigned* next, unsigned* first) {
  if (atomicAdd(next, 1u) == 0) *first = threadIdx.x;
}

// Planted: sums what the block never wrote. With zeros, or what the block before left, the sum
// would be right.
__global__ void stale_shared_kernel(float* out) {
  LATHE_SHARED(float[8], room);
  LATHE_DYNAMIC_SHARED(float, more);
  if (threadIdx.x < 7) room[threadIdx.x] = 1.f;  // and room[7]?
  __syncthreads();
  if (threadIdx.x == 0) {
    out[2 * blockIdx.x] = 0;
    for (int i = 0; i < 8; ++i) out[2 * blockIdx.x] += room[i];
    out[2 * blockIdx.x + 1] = more[1];
  }
}

// Planted: two arrays in dynamic shared memory for which the launch asks too little.
__global__ void dynamic_overrun_kernel(int* out) {
  LATHE_DYNAMIC_SHARED(int, left);
  int* const right = left + blockDim.x;
  left[threadIdx.x] = right[threadIdx.x] = static_cast<int>(threadIdx.x);
  __syncthreads();
  out[threadIdx.x] = left[threadIdx.x] + right[threadIdx.x];
}

// Planted: one element too many. (By a pointer: UndefinedBehaviorSanitizer knows the array.)
__global__ void static_overrun_kernel() {
  LATHE_SHARED(int[31], room);
  LATHE_SHARED(int[4], other);
  int* const numbers = room;
  numbers[threadIdx.x] = 3;
  if (threadIdx.x < 4) other[threadIdx.x] = 3;
}

__global__ void too_much_shared_kernel(char* out) {
  LATHE_SHARED(char[48 * 1024], room);
  LATHE_SHARED(char, other);
  room[0] = other = 'a';
  *out = room[0];
}

// Blocks that wait for each other: on a GPU right only if all are underway at once.
__global__ void grid_barrier_kernel(unsigned* arrived, unsigned* seen) {
  if (threadIdx.x != 0) return;
  atomicAdd(arrived, 1u);
  while (atomicAdd(arrived, 0u) < gridDim.x) {
  }
  seen[blockIdx.x] = atomicAdd(arrived, 0u);
}

// Planted: nothing keeps two blocks from reading the same number before either writes.
__global__ void lost_update_kernel(unsigned* count) {
  if (threadIdx.x == 0) atomicExch(count, atomicAdd(count, 0u) + 1);
}

__global__ void empty_kernel() {}

cudaError_t launch_empty(dim3 grid, dim3 block, size_t shared_bytes = 0) {
  const cudaError_t error = emulation::launch_kernel(emulation::erase(empty_kernel), grid, block,
                                                     shared_bytes, nullptr, {});
  cudaGetLastError();
  return error;
}

}  // namespace

TEST_CASE("emulation: blocks run in an order that the seed draws") {
  std::vector<unsigned> sorted(50);
  for (unsigned i = 0; i < 50; ++i) sorted[i] = i;
  std::set<std::vector<unsigned>> orders;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    for (const unsigned resident : {1u, 3u, 100u}) {
      std::vector<unsigned> order = order_of_blocks(seed, resident);
      CHECK(order == order_of_blocks(seed, resident));
      CHECK(order != sorted);
      orders.insert(order);
      std::ranges::sort(order);
      CHECK(order == sorted);
    }
  }
  CHECK(orders.size() == 60);
}

TEST_CASE("emulation: threads of a block run in an order that the seed draws") {
  std::set<unsigned> firsts;
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const ScheduleScope scope({.seed = seed});
    unsigned next = 0, first = 0;
    run_now(first_thread_kernel, dim3(1), dim3(64), 0, &next, &first);
    firsts.insert(first);
  }
  CHECK(firsts.size() > 10);
}

TEST_CASE(
    "emulation: shared memory is NaN when a block begins, also after other blocks and launches") {
  for (const unsigned resident : {1u, 2u}) {
    const ScheduleScope scope({.resident = resident});
    for (int launch = 0; launch < 2; ++launch) {
      std::vector<float> out(2 * 5, 0.f);
      run_now(stale_shared_kernel, dim3(5), dim3(8), 8 * sizeof(float), out.data());
      for (const float value : out) CHECK(std::isnan(value));
    }
  }
}

TEST_CASE(
    "emulation: a write beyond a variable in shared memory names it, the block and the kernel") {
  std::vector<int> out(32);
  CHECK_THROWS_WITH_AS(
      run_now(dynamic_overrun_kernel, dim3(1), dim3(32), 32 * sizeof(int), out.data()),
      doctest::Contains("wrote beyond its dynamic shared memory, 128 bytes"), StateError);
  run_now(dynamic_overrun_kernel, dim3(1), dim3(32), 64 * sizeof(int), out.data());
  CHECK(out[31] == 62);
  std::string text;
  try {
    run_now(static_overrun_kernel, dim3(1), dim3(32), 0);
  } catch (const StateError& error) {
    text = error.what();
  }
  CHECK(text.find("block (0,0,0) of ") != text.npos);
  CHECK(text.find("static_overrun_kernel") != text.npos);
  CHECK(text.find("wrote beyond room, 124 bytes") != text.npos);
  run_now(static_overrun_kernel, dim3(1), dim3(31), 0);
}

TEST_CASE("emulation: blocks that are underway together take turns at atomic operations") {
  const ScheduleScope scope({.resident = 4});
  unsigned arrived = 0;
  std::vector<unsigned> seen(4);
  run_now(grid_barrier_kernel, dim3(4), dim3(32), 0, &arrived, seen.data());
  CHECK(seen == std::vector<unsigned>(4, 4));
  unsigned count = 0;
  run_now(lost_update_kernel, dim3(100), dim3(32), 0, &count);
  CHECK(count < 100);
}

TEST_CASE("emulation: one block after another hides an update that is lost between two") {
  const ScheduleScope scope({.resident = 1});
  unsigned count = 0;
  run_now(lost_update_kernel, dim3(100), dim3(32), 0, &count);
  CHECK(count == 100);
}

TEST_CASE("emulation: what a GPU of compute capability 9.0 refuses of a launch") {
  CHECK(launch_empty(dim3(1), dim3(1024)) == cudaSuccess);
  CHECK(launch_empty(dim3(1), dim3(16, 1, 64), 48 << 10) == cudaSuccess);
  for (const dim3 block : {dim3(0), dim3(1025), dim3(32, 33), dim3(1, 1, 65), dim3(1, 1025)}) {
    CHECK(launch_empty(dim3(1), block) == cudaErrorInvalidConfiguration);
  }
  for (const dim3 grid :
       {dim3(0), dim3(1, 0), dim3(1, 65536), dim3(1, 1, 65536), dim3(0x80000000u)}) {
    CHECK(launch_empty(grid, dim3(32)) == cudaErrorInvalidConfiguration);
  }
  CHECK(launch_empty(dim3(1), dim3(32), (48 << 10) + 1) == cudaErrorInvalidValue);
  char out = 0;
  CHECK_THROWS_WITH_AS(run_now(too_much_shared_kernel, dim3(1), dim3(1), 0, &out),
                       doctest::Contains("with the 1 bytes of other, is more than 49152 bytes"),
                       StateError);
  struct Parameters {
    char bytes[1000];
  };
  static_assert(emulation::parameter_bytes<char, double, int>() == 20);
  static_assert(emulation::parameter_bytes<Parameters, int64_t>() == 1008);
}
