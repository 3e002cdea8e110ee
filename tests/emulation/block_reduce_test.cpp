// The reductions of ops/reduce_kernels/block_reduce.cuh against serial ones, in kernels of their own.
#include "lathe/ops/reduce_kernels/block_reduce.cuh"

#include <doctest/doctest.h>

#include <cstdint>
#include <cstring>
#include <numeric>
#include <vector>

#include "lathe/core/half.h"
#include "lathe/ops/reduce_kernels/reduce_math.h"
#include "run_now.h"

using namespace lathe;
using namespace lathe::cuda;
using lathe::test::run_now;

namespace {

using Moments = reduce_math::Moments<float>;  // 12 bytes
struct Place {                                // 16 bytes, all of them compared below
  int64_t value;
  int64_t thread;
};
struct Smallest {
  Place operator()(const Place& a, const Place& b) const {
    return b.value < a.value || (b.value == a.value && b.thread < a.thread) ? b : a;
  }
};
struct AddHalf {
  Half operator()(Half a, Half b) const { return Half(a + b); }
};

template <class T, class Combine>
__global__ void warp_kernel(T* first, T* all, const T* x, Combine combine, unsigned lanes) {
  const unsigned t = threadIdx.x;
  first[t] = warp_reduce(x[t], combine, lanes);
  all[t] = warp_reduce_all(x[t], combine, lanes);
}

template <class T, class Combine>
__global__ void block_kernel(T* first, T* all, const T* x, Combine combine) {
  const unsigned t = blockIdx.x * blockDim.x + threadIdx.x;
  const T total = block_reduce(x[t], combine);
  if (threadIdx.x == 0) first[blockIdx.x] = total;
  all[t] = block_reduce_all(x[t], combine);
  const T again = block_reduce_all(x[t], combine);  // at once: the shared memory is used again
  if (std::memcmp(&again, &all[t], sizeof(T)) != 0) all[t] = T{};
}

template <class T, class Combine>
__global__ void columns_kernel(T* first, T* all, const T* x, Combine combine, unsigned width) {
  const unsigned t = threadIdx.x;
  const T total = block_reduce_columns<256>(x[t], combine, width);
  if (t < width) first[t] = total;
  all[t] = block_reduce_columns_all<256>(x[t], combine, width);
}

/// Whole numbers, whose sums are exact in any order.
template <class T>
std::vector<T> numbers(size_t n) {
  std::vector<T> x(n);
  for (size_t i = 0; i < n; ++i) x[i] = static_cast<T>(static_cast<int>(i * 37 % 11) - 4);
  return x;
}

template <class T, class Combine>
void check_warps(Combine combine) {
  for (unsigned lanes = 1; lanes <= 32; lanes *= 2) {
    const std::vector<T> x = numbers<T>(64);
    std::vector<T> first(64), all(64);
    run_now(warp_kernel<T, Combine>, dim3(1), dim3(64), 0, first.data(), all.data(), x.data(),
            combine, lanes);
    for (unsigned t = 0; t < 64; ++t) {
      const unsigned start = t / lanes * lanes;
      double want = 0;
      for (unsigned i = 0; i < lanes; ++i) want += static_cast<double>(x[start + i]);
      CHECK(static_cast<double>(all[t]) == want);
      if (t == start) CHECK(static_cast<double>(first[t]) == want);
    }
  }
}

}  // namespace

TEST_CASE("block_reduce: groups of lanes, for types of 2 to 8 bytes") {
  check_warps<float>(Step<reduce_math::Sum<float>>{});
  check_warps<double>(Step<reduce_math::Sum<double>>{});
  check_warps<int64_t>(Step<reduce_math::Sum<int64_t>>{});
  check_warps<Half>(AddHalf{});
}

TEST_CASE("block_reduce: blocks of any number of warps, to one thread and to all") {
  for (const unsigned threads : {32u, 64u, 96u, 256u, 1024u}) {
    constexpr unsigned kBlocks = 2;
    const std::vector<float> x = numbers<float>(kBlocks * threads);
    std::vector<float> first(kBlocks), all(x.size());
    using Sum = Step<reduce_math::Sum<float>>;
    run_now(block_kernel<float, Sum>, dim3(kBlocks), dim3(threads), 0, first.data(), all.data(),
            x.data(), Sum{});
    for (unsigned b = 0; b < kBlocks; ++b) {
      const auto begin = x.begin() + b * threads;
      const float want = std::accumulate(begin, begin + threads, 0.f);
      CHECK(first[b] == want);
      for (unsigned t = 0; t < threads; ++t) CHECK(all[b * threads + t] == want);
    }
  }
}

TEST_CASE("block_reduce: structures travel whole") {
  constexpr unsigned kThreads = 160;
  std::vector<Place> x(kThreads), first(1), all(kThreads);
  for (unsigned t = 0; t < kThreads; ++t) {
    x[t] = {static_cast<int64_t>((t * 7 + 3) % 40) - (int64_t{1} << 40), t};
  }
  run_now(block_kernel<Place, Smallest>, dim3(1), dim3(kThreads), 0, first.data(), all.data(),
          x.data(), Smallest{});
  CHECK(first[0].thread == 11);  // 7 * 11 + 3 = 80: the first multiple of 40
  CHECK(all[97].thread == 11);

  std::vector<Moments> parts(kThreads), joined(1), everywhere(kThreads);
  for (unsigned t = 0; t < kThreads; ++t) parts[t] = {1.f, static_cast<float>(t), 0.f};
  run_now(block_kernel<Moments, Join>, dim3(1), dim3(kThreads), 0, joined.data(), everywhere.data(),
          parts.data(), Join{});
  CHECK(joined[0].count == 160.f);
  CHECK(joined[0].mean == doctest::Approx(79.5));
  CHECK(joined[0].m2 == doctest::Approx(160.0 * (160.0 * 160.0 - 1) / 12));  // of 0 … 159
  CHECK(std::memcmp(&everywhere[159], &joined[0], sizeof(Moments)) == 0);
}

TEST_CASE("block_reduce: columns of any width") {
  using Sum = Step<reduce_math::Sum<double>>;
  const std::vector<double> x = numbers<double>(256);
  for (unsigned width = 1; width <= 256; width *= 2) {
    std::vector<double> first(width), all(256);
    run_now(columns_kernel<double, Sum>, dim3(1), dim3(256), 0, first.data(), all.data(), x.data(),
            Sum{}, width);
    for (unsigned c = 0; c < 256; ++c) {
      double want = 0;
      for (unsigned t = c % width; t < 256; t += width) want += x[t];
      CHECK(all[c] == want);
      if (c < width) CHECK(first[c] == want);
    }
  }
}
