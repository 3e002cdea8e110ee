// Races for device memory, within a launch and between streams: planted faults that are found
// whatever order the work ran in, also where the result was right, and named (kernel_access.h).
#include <doctest/doctest.h>

#include <string>

#include "../cuda_case.h"
#include "kernel_access.h"
#include "kernel_fault.h"
#include "schedule.h"

using namespace lathe;
using namespace lathe::test;
using emulation::ScheduleScope;
using emulation::Watch;
using emulation::WatchScope;

namespace {

/// Planted where it does not count atomically: blocks lose updates of each other.
__global__ void count_kernel(unsigned* count, bool atomically) {
  if (threadIdx.x != 0) return;
  if (atomically) {
    atomicAdd(count, 1u);
  } else {
    const unsigned before = *count;
    __threadfence();  // orders nothing here
    *count = before + 1;
  }
}

/// Counts its runs in a number that each thread looks at. Planted where each reads it for itself,
/// while thread 0 counts.
__global__ void turns_kernel(unsigned* turns, unsigned* seen, bool by_one_thread) {
  LATHE_SHARED(unsigned, turn);
  if (threadIdx.x == 0) turn = *turns;
  __syncthreads();
  seen[threadIdx.x] = by_one_thread ? turn : *turns;
  if (threadIdx.x == 0) *turns = turn + 1;
}

/// The last block that arrives adds up what all have written.
__global__ void join_kernel(unsigned* sum, unsigned* parts, unsigned* arrived, bool with_fence) {
  LATHE_SHARED(bool, last);
  if (threadIdx.x == 0) {
    parts[blockIdx.x] = blockIdx.x;
    if (with_fence) __threadfence();
    last = atomicAdd(arrived, 1u) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last || threadIdx.x != 1) return;
  *sum = 0;
  for (unsigned i = 0; i < gridDim.x; ++i) *sum += parts[i];
}

/// Neighbours in a word, each of a block of its own.
__global__ void bytes_kernel(unsigned char* bytes) {
  bytes[blockIdx.x * blockDim.x + threadIdx.x] = static_cast<unsigned char>(threadIdx.x);
}

// Unsigned: what is not written yet may be any number.
__global__ void double_kernel(unsigned* to, const unsigned* from) {
  to[threadIdx.x] = 2 * from[threadIdx.x];
}

class Queue {
 public:
  explicit Queue(unsigned flags = cudaStreamNonBlocking) {
    LATHE_CUDA_CHECK(cudaStreamCreateWithFlags(&stream_, flags));
  }
  ~Queue() { cudaStreamDestroy(stream_); }
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;
  cudaStream_t get() const { return stream_; }

 private:
  cudaStream_t stream_ = nullptr;
};

void twice(const Taken& to, const Taken& from, cudaStream_t stream) {
  launch(double_kernel, dim3(1), dim3(32), 0, Stream{stream, Device(DeviceType::kCUDA)},
         to.as<unsigned>(), from.as<const unsigned>());
}

void copy(const Taken& to, const Taken& from, cudaStream_t stream) {
  LATHE_CUDA_CHECK(
      cudaMemcpyAsync(to.as<int>(), from.as<int>(), 128, cudaMemcpyDeviceToDevice, stream));
}

std::string said_at_the_end() {
  try {
    LATHE_CUDA_CHECK(cudaDeviceSynchronize());
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

/// Each order in which blocks run and queued work does.
template <class F>
void for_each_order(F&& f) {
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    const ScheduleScope scope({.seed = seed,
                               .resident = seed % 2 == 0 ? 4u : 1u,
                               .early = static_cast<unsigned>(seed % 3)});
    CAPTURE(seed);
    f();
  }
}

}  // namespace

TEST_SUITE_BEGIN("emulation: races" * cuda_case());

TEST_CASE("races: an update that another block loses") {
  const WatchScope watched(Watch::kRaces);
  const Taken count(4);
  for_each_order([&] {
    CHECK(fault_of(count_kernel, dim3(5), dim3(32), count.as<unsigned>(), true) == "");
    const std::string fault =
        fault_of(count_kernel, dim3(5), dim3(32), count.as<unsigned>(), false);
    CHECK(has(fault, "kernel: thread (0,0,0) of block ("));
    CHECK(has(fault, "count_kernel"));
    CHECK(has(fault, "4 bytes at 0x"));
    CHECK(has(fault, "byte 0 of a block of 4: thread 0 of block "));
    CHECK(has(fault, "them, and nothing orders the two"));
  });
}

TEST_CASE("races: a number that each thread reads for itself, and one of them writes") {
  const WatchScope watched(Watch::kRaces);
  const Taken turns(4), seen(64 * 4);
  for_each_order([&] {
    CHECK(fault_of(turns_kernel, dim3(1), dim3(64), turns.as<unsigned>(), seen.as<unsigned>(),
                   true) == "");
    const std::string fault =
        fault_of(turns_kernel, dim3(1), dim3(64), turns.as<unsigned>(), seen.as<unsigned>(), false);
    CHECK(has(fault, "turns_kernel"));
    CHECK(has(fault, "block (0,0,0)"));
    CHECK(has(fault, "byte 0 of a block of 4: thread "));
    CHECK(has(fault, "them, and nothing orders the two"));
  });
}

TEST_CASE("races: a block reads what others wrote before their fence, and the fence is missing") {
  const WatchScope watched(Watch::kRaces);
  const Taken sum(4), parts(5 * 4), arrived(4);
  for_each_order([&] {
    for (const bool with_fence : {true, false}) {
      LATHE_CUDA_CHECK(cudaMemsetAsync(arrived.as<void>(), 0, 4, nullptr));
      const std::string fault = fault_of(join_kernel, dim3(5), dim3(32), sum.as<unsigned>(),
                                         parts.as<unsigned>(), arrived.as<unsigned>(), with_fence);
      CHECK((with_fence ? fault.empty() : has(fault, "thread (1,0,0) of block (")));
      if (!with_fence) CHECK(has(fault, " reads 4 bytes at 0x"));
    }
  });
}

TEST_CASE("races: neighbours in a word are no race") {
  const WatchScope watched(Watch::kRaces);
  const Taken bytes(5 * 33);
  CHECK(fault_of(bytes_kernel, dim3(5), dim3(33), bytes.as<unsigned char>()) == "");
}

TEST_CASE("races: a wait between two streams that is missing") {
  const WatchScope watched(Watch::kRaces);
  const Taken a(128), b(128), c(128);
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  for_each_order([&] {
    const Queue first, second;
    const auto order = [&] {
      LATHE_CUDA_CHECK(cudaEventRecord(event, first.get()));
      LATHE_CUDA_CHECK(cudaStreamWaitEvent(second.get(), event, 0));
    };
    for (void (*const work)(const Taken&, const Taken&, cudaStream_t) : {twice, copy}) {
      twice(b, a, first.get());
      order();
      work(c, b, second.get());  // reads what was written
      CHECK(said_at_the_end() == "");
      twice(b, a, first.get());
      work(c, b, second.get());
      const std::string reads = said_at_the_end();
      CHECK(has(reads, "double_kernel"));
      CHECK(has(reads, " on stream "));
      CHECK(has(reads, "of a block of 128: "));
      CHECK(has(reads, "them, and nothing orders the two"));
      twice(c, b, first.get());
      order();
      work(b, a, second.get());  // writes what was read
      CHECK(said_at_the_end() == "");
      twice(c, b, first.get());
      work(b, a, second.get());
      CHECK(has(said_at_the_end(), "nothing orders the two"));
    }
  });
  CHECK(cudaEventDestroy(event) == cudaSuccess);
}

TEST_CASE("races: an event orders what came before its recording, and a host that waits all") {
  const WatchScope watched(Watch::kRaces);
  const Taken a(128), b(128), c(128);
  cudaEvent_t event = nullptr;
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  for_each_order([&] {
    const Queue first, second, third;
    LATHE_CUDA_CHECK(cudaEventRecord(event, first.get()));  // too early
    twice(b, a, first.get());
    LATHE_CUDA_CHECK(cudaStreamWaitEvent(second.get(), event, 0));
    twice(c, b, second.get());
    CHECK(has(said_at_the_end(), "nothing orders the two"));
    twice(b, a, first.get());  // over two streams
    LATHE_CUDA_CHECK(cudaEventRecord(event, first.get()));
    LATHE_CUDA_CHECK(cudaStreamWaitEvent(second.get(), event, 0));
    LATHE_CUDA_CHECK(cudaEventRecord(event, second.get()));
    LATHE_CUDA_CHECK(cudaStreamWaitEvent(third.get(), event, 0));
    twice(c, b, third.get());
    CHECK(said_at_the_end() == "");
    twice(b, a, first.get());
    LATHE_CUDA_CHECK(cudaStreamSynchronize(first.get()));
    twice(c, b, second.get());
    twice(b, a, third.get());  // second still reads it
    CHECK(has(said_at_the_end(), "nothing orders the two"));
    twice(b, a, first.get());
    LATHE_CUDA_CHECK(cudaEventRecord(event, first.get()));
    while (cudaEventQuery(event) != cudaSuccess) {
    }
    twice(c, b, second.get());
    CHECK(said_at_the_end() == "");
  });
  CHECK(cudaEventDestroy(event) == cudaSuccess);
}

TEST_CASE("races: the legacy stream and those that are not non-blocking wait for each other") {
  const WatchScope watched(Watch::kRaces);
  const Taken a(128), b(128), c(128);
  const Queue waits(0), goes_on;
  twice(b, a, nullptr);
  twice(c, b, waits.get());
  twice(b, a, nullptr);
  CHECK(said_at_the_end() == "");
  twice(b, a, nullptr);
  twice(c, b, goes_on.get());
  CHECK(has(said_at_the_end(), "the default stream"));
}

TEST_SUITE_END();
