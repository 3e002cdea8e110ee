// The emulation itself: positions, barriers, shuffles, atomics, divergence.
#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "run_now.h"

using namespace lathe;
using lathe::test::run_now;

namespace {

__global__ void position_kernel(int* out) {
  const unsigned width = gridDim.x * blockDim.x;
  const unsigned column = blockIdx.x * blockDim.x + threadIdx.x;
  const unsigned row = blockIdx.y * blockDim.y + threadIdx.y;
  out[row * width + column] = static_cast<int>(row * width + column);
}

// Sum of a block's elements: shuffles within warps, then shared memory between them.
__global__ void block_sum_kernel(float* out, const float* x) {
  LATHE_SHARED(float[32], warps);
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float sum = x[blockIdx.x * blockDim.x + threadIdx.x];
  for (unsigned step = 16; step > 0; step /= 2) sum += __shfl_down_sync(0xffffffffu, sum, step);
  if (lane == 0) warps[warp] = sum;
  __syncthreads();
  if (threadIdx.x == 0) {
    float total = 0;
    for (unsigned w = 0; w < blockDim.x / 32; ++w) total += warps[w];
    out[blockIdx.x] = total;
  }
}

__global__ void shuffle_kernel(int* up, int* down, int* across) {
  const int value = static_cast<int>(threadIdx.x) + 100;
  up[threadIdx.x] = __shfl_up_sync(0xffffffffu, value, 3);
  down[threadIdx.x] = __shfl_down_sync(0xffffffffu, value, 5);
  across[threadIdx.x] = __shfl_xor_sync(0xffffffffu, value, 6);
}

__global__ void dynamic_shared_kernel(int* out) {
  LATHE_DYNAMIC_SHARED(int, room);
  room[threadIdx.x] = static_cast<int>(threadIdx.x) * 10;
  __syncthreads();
  out[threadIdx.x] = room[(threadIdx.x + 1) % blockDim.x];
}

__global__ void atomic_kernel(float* sum) { atomicAdd(sum, 0.5f); }
__global__ void atomic_max_kernel(unsigned long long* largest) {
  atomicMax(largest, static_cast<unsigned long long>(blockIdx.x * 100 + 40 - threadIdx.x));
}

__global__ void divergent_kernel(int mode) {
  if (mode == 0) {
    if (threadIdx.x < 3) __syncthreads();  // the others end
  } else {
    if (threadIdx.x == 5) {
      __syncthreads();
    } else {
      __syncthreads();
    }
  }
}

__global__ void throwing_kernel() {
  if (threadIdx.x == 2) throw std::runtime_error("from a thread");
  __syncthreads();
}

}  // namespace

TEST_CASE("emulation: every thread of every block runs once, at its own position") {
  std::vector<int> out(8 * 6, -1);
  run_now(position_kernel, dim3(2, 3), dim3(4, 2), 0, out.data());
  for (size_t i = 0; i < out.size(); ++i) CHECK(out[i] == static_cast<int>(i));
}

TEST_CASE("emulation: shuffles and barriers sum a block") {
  std::vector<float> x(3 * 96, 1.f), out(3);
  x[100] = 5.f;
  run_now(block_sum_kernel, dim3(3), dim3(96), 0, out.data(), x.data());
  CHECK(out == std::vector<float>{96, 100, 96});
}

TEST_CASE("emulation: shuffles stay in their warp; a lane without a partner keeps its value") {
  std::vector<int> up(64), down(64), across(64);
  run_now(shuffle_kernel, dim3(1), dim3(64), 0, up.data(), down.data(), across.data());
  for (int t = 0; t < 64; ++t) {
    const auto i = static_cast<size_t>(t);
    CHECK(up[i] == 100 + (t % 32 < 3 ? t : t - 3));
    CHECK(down[i] == 100 + (t % 32 > 26 ? t : t + 5));
    CHECK(across[i] == 100 + (t ^ 6));
  }
}

TEST_CASE("emulation: dynamic shared memory and atomics") {
  std::vector<int> out(8);
  run_now(dynamic_shared_kernel, dim3(1), dim3(8), 8 * sizeof(int), out.data());
  CHECK(out == std::vector<int>{10, 20, 30, 40, 50, 60, 70, 0});
  float sum = 0;
  run_now(atomic_kernel, dim3(4), dim3(32), 0, &sum);
  CHECK(sum == 64.f);
  unsigned long long largest = 7;
  run_now(atomic_max_kernel, dim3(4), dim3(32), 0, &largest);
  CHECK(largest == 340);
}

TEST_CASE("emulation: divergence at a barrier is an error that names both places") {
  CHECK_THROWS_WITH_AS(run_now(divergent_kernel, dim3(1), dim3(8), 0, 0),
                       doctest::Contains("thread 3 is at its end"), StateError);
  CHECK_THROWS_WITH_AS(run_now(divergent_kernel, dim3(1), dim3(8), 0, 1),
                       doctest::Contains("diverge at a barrier"), StateError);
}

TEST_CASE("emulation: an exception in a thread reaches the caller") {
  CHECK_THROWS_WITH(run_now(throwing_kernel, dim3(1), dim3(8), 0), "from a thread");
}
