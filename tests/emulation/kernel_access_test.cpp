// Faults that are planted in kernels, each found when it happens and named with kernel, block and
// thread: see kernel_access.h.
#include "kernel_access.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "../cuda_case.h"
#include "dependent_launch.h"
#include "kernel_fault.h"
#include "lathe/core/gpu/dependent_launch.cuh"
#include "lathe/core/gpu/packet.cuh"
#include "run_now.h"
#include "schedule.h"

using namespace lathe;
using namespace lathe::test;

namespace {

__global__ void add_one_kernel(float* to, const float* from, int n) {
  const auto i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < n) to[i] = from[i] + 1.f;
}

__global__ void four_kernel(float* to, const float* from) {
  using Four = cuda::Packet<float, 4>;
  const Four four = *reinterpret_cast<const Four*>(from);
  to[threadIdx.x] = four.v[0] + four.v[3];
}

__global__ void reverse_kernel(int* out, bool with_barrier) {
  LATHE_SHARED(int[64], room);
  const unsigned t = threadIdx.x;
  room[t] = static_cast<int>(t);
  if (with_barrier) __syncthreads();
  out[t] = room[63 - t];
}

// The barrier between two uses of the same shared memory is missing.
__global__ void twice_kernel(int* out, bool with_barrier) {
  LATHE_SHARED(int[64], room);
  const unsigned t = threadIdx.x;
  for (int turn = 0; turn < 2; ++turn) {
    room[t] = static_cast<int>(t) + turn;
    __syncthreads();
    out[t] = room[63 - t];
    if (with_barrier) __syncthreads();
  }
}

__global__ void lanes_kernel(int* out, bool with_barrier) {
  LATHE_SHARED(int[32], room);
  room[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (with_barrier) __syncwarp();
  out[threadIdx.x] = room[threadIdx.x ^ 1];
}

/// All lanes read what one of them writes again, with barriers of the warp between.
__global__ void counting_lane_kernel(int* out) {
  LATHE_SHARED(int, count);
  if (threadIdx.x == 0) count = 1;
  __syncwarp();
  const int seen = count;
  __syncwarp();
  if (threadIdx.x == 0) count += seen;
  __syncwarp();
  out[threadIdx.x] = count;
}

/// All threads count in one number. Thread 0 sets it before, and all read it after.
__global__ void tally_kernel(unsigned* out, bool first_barrier, bool last_barrier) {
  LATHE_SHARED(unsigned, count);
  if (threadIdx.x == 0) count = 0;
  if (first_barrier) __syncthreads();
  atomicAdd(&count, 1u);
  atomicAdd(&count, 1u);
  if (last_barrier) __syncthreads();
  out[threadIdx.x] = count;
}

__global__ void unwritten_kernel(float* out) {
  LATHE_SHARED(float[33], room);
  room[threadIdx.x] = 1.f;
  __syncthreads();
  out[threadIdx.x] = room[threadIdx.x + 1];
}

__global__ void beyond_shared_kernel(float* out, int n) {
  LATHE_SHARED(float[32], room);
  LATHE_SHARED(float[32], other);
  other[threadIdx.x] = room[threadIdx.x] = 1.f;
  __syncthreads();
  const float* const numbers = room;
  for (int i = 0; i < n; ++i) out[0] = numbers[i];
}

__global__ void others_memory_kernel(int* out) {
  LATHE_SHARED(int*, place);
  int own[3] = {static_cast<int>(threadIdx.x), 2, 3};
  if (threadIdx.x == 0) place = own;
  __syncthreads();
  out[threadIdx.x] = place[threadIdx.x % 3];
}

__global__ void count_kernel(unsigned* count) { atomicAdd(count, 1u); }

/// Thread i reads elements 2 i and 0, and writes element i.
__global__ void every_other_kernel(float* to, const float* from) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = from[2 * i] + from[0];
}

enum Waits { kFirst, kLate, kNever };
__global__ void dependent_kernel(float* to, const float* from, int waits) {
  if (waits == kNever) return;
  if (waits == kFirst) after_previous_kernel();
  const float number = from[threadIdx.x];
  if (waits == kLate) after_previous_kernel();
  to[threadIdx.x] = number;
}

}  // namespace

TEST_SUITE_BEGIN("watched kernels" * test::cuda_case());

TEST_CASE("emulation: a kernel that gets a pointer of the host") {
  const Taken device(40);
  std::vector<float> host(10);
  const std::string read =
      fault_of(add_one_kernel, dim3(3), dim3(4), device.as<float>(), host.data(), 10);
  CHECK(has(read, "reads 4 bytes at 0x"));
  CHECK(has(read, ": memory of the host"));
  CHECK(has(read, "thread ("));
  CHECK(has(read, "block ("));
  CHECK(has(read, "add_one_kernel"));
  const std::string write =
      fault_of(add_one_kernel, dim3(3), dim3(4), host.data(), device.as<float>(), 10);
  CHECK(has(write, "writes 4 bytes at 0x"));
  unsigned count = 0;
  CHECK(has(fault_of(count_kernel, dim3(1), dim3(1), &count), "memory of the host"));
  CHECK(count == 0);
}

TEST_CASE("emulation: page-locked memory of the host, and a kernel that is right") {
  const Taken device(40);
  void* host = nullptr;
  REQUIRE(cudaHostAlloc(&host, 40, cudaHostAllocDefault) == cudaSuccess);
  auto* const numbers = static_cast<float*>(host);
  for (int i = 0; i < 10; ++i) numbers[i] = static_cast<float>(i);
  CHECK(fault_of(add_one_kernel, dim3(3), dim3(4), device.as<float>(), numbers, 10) == "");
  CHECK(fault_of(add_one_kernel, dim3(3), dim3(4), numbers, device.as<float>(), 10) == "");
  CHECK(numbers[9] == 11.f);
  CHECK(cudaFreeHost(host) == cudaSuccess);
}

TEST_CASE("emulation: a dependent kernel that does not wait for the one before") {
  const Taken device(80);
  const auto fault = [&](int waits) {
    return fault_of(dependent_kernel, dim3(2), dim3(4), device.as<float>(), device.as<float>() + 10,
                    waits);
  };
  CHECK(fault(kLate) == "");  // as launch() starts it
  emulation::expect_wait(reinterpret_cast<void (*)()>(dependent_kernel));
  CHECK(fault(kFirst) == "");
  CHECK(has(fault(kLate), "reads 4 bytes"));
  CHECK(has(fault(kLate), "before after_previous_kernel(): the kernel before may run"));
  CHECK(has(fault(kNever), "dependent_kernel"));
  CHECK(has(fault(kNever), "ends without after_previous_kernel()"));
}

TEST_CASE("emulation: what a launch moves is counted in sectors, each once") {
  if (!emulation::TrafficLog::sees_all()) return;
  const emulation::WatchScope watched(emulation::Watch::kAccesses);
  const Taken from(4096), to(4096);
  emulation::TrafficLog log;
  CHECK(fault_of(every_other_kernel, dim3(2), dim3(64), to.as<float>(), from.as<float>()) == "");
  CHECK(fault_of(every_other_kernel, dim3(1), dim3(3), to.as<float>() + 7, from.as<float>()) == "");
  REQUIRE(log.launches().size() == 2);
  CHECK(log.launches()[0].read_bytes == 2 * 128 * 4);  // half of each sector
  CHECK(log.launches()[0].written_bytes == 128 * 4);
  CHECK(log.launches()[1].read_bytes == 32);     // 12 bytes of one sector
  CHECK(log.launches()[1].written_bytes == 64);  // 12 bytes in two
}

TEST_CASE("emulation: an access beyond a block of device memory, or of one that was given back") {
  const emulation::ScheduleScope scope({.seed = 4});
  Taken from(36), to(40);
  const std::string beyond =
      fault_of(add_one_kernel, dim3(3), dim3(4), to.as<float>(), from.as<float>(), 10);
  CHECK(has(beyond, "thread (1,0,0) of block (2,0,0) of "));
  CHECK(has(beyond, "reads 4 bytes at 0x"));
  CHECK(has(beyond, "device memory outside every block"));
  auto* const gone = from.as<float>();
  from.give_back();
  CHECK(has(fault_of(add_one_kernel, dim3(1), dim3(4), to.as<float>(), gone, 4), "given back"));
  auto* const nowhere = reinterpret_cast<float*>(uintptr_t{64});
  CHECK(has(fault_of(add_one_kernel, dim3(1), dim3(1), to.as<float>(), nowhere, 1),
            "reads 4 bytes at 0x40: memory of the host"));
}

TEST_CASE("emulation: a load of four numbers from where one may be" *
          doctest::skip(!LATHE_ALIGNMENT_IS_WATCHED) *
          doctest::description("UndefinedBehaviorSanitizer would end the program")) {
  const Taken from(80), to(16);
  CHECK(fault_of(four_kernel, dim3(1), dim3(4), to.as<float>(), from.as<float>() + 4) == "");
  const std::string fault =
      fault_of(four_kernel, dim3(1), dim3(1), to.as<float>(), from.as<float>() + 1);
  CHECK(has(fault, "thread (0,0,0) of block (0,0,0) of "));
  CHECK(has(fault, "four_kernel"));
  CHECK(has(fault, "needs a multiple of 16"));
}

TEST_CASE(
    "emulation: a barrier that is missing between a write and a read, or a read and a write") {
  const Taken out(256);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const emulation::ScheduleScope scope({.seed = seed});
    CHECK(fault_of(reverse_kernel, dim3(2), dim3(64), out.as<int>(), true) == "");
    CHECK(fault_of(twice_kernel, dim3(2), dim3(64), out.as<int>(), true) == "");
    CHECK(fault_of(lanes_kernel, dim3(2), dim3(32), out.as<int>(), true) == "");
    CHECK(fault_of(counting_lane_kernel, dim3(1), dim3(32), out.as<int>()) == "");
    const std::string fault = fault_of(reverse_kernel, dim3(2), dim3(64), out.as<int>(), false);
    CHECK(has(fault, "reverse_kernel"));
    CHECK(has(fault, "no barrier is between the two"));
    const std::string twice = fault_of(twice_kernel, dim3(2), dim3(64), out.as<int>(), false);
    CHECK(has(twice, "twice_kernel"));
    CHECK(has(twice, "no barrier is between the two"));
    CHECK(has(fault_of(lanes_kernel, dim3(2), dim3(32), out.as<int>(), false),
              "no barrier is between the two"));
  }
}

TEST_CASE("emulation: atomic operations on shared memory race with all but each other") {
  const Taken out(256);
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const emulation::ScheduleScope scope({.seed = seed});
    const auto tally = [&](bool first, bool last) {
      return fault_of(tally_kernel, dim3(2), dim3(64), out.as<unsigned>(), first, last);
    };
    CHECK(tally(true, true) == "");
    CHECK(has(tally(false, true), "no barrier is between the two"));
    CHECK(has(tally(true, false), "no barrier is between the two"));
    CHECK(has(tally(true, false), "tally_kernel"));
  }
}

TEST_CASE("emulation: a launch that began before the log is not in it") {
  emulation::TrafficLog log;
  log.note(64, 4, true);
  log.end();
  CHECK(log.launches().empty());
  log.begin(nullptr);
  log.end();
  REQUIRE(log.launches().size() == 1);
  CHECK(log.launches()[0].written_bytes == 0);
}

TEST_CASE("emulation: shared memory that nobody wrote, and an array that is too short") {
  const Taken out(256);
  CHECK(fault_of(unwritten_kernel, dim3(2), dim3(32), out.as<float>()) == "");
  const std::string unwritten = [&] {
    const emulation::WatchScope watched(emulation::Watch::kUnwritten);
    return fault_of(unwritten_kernel, dim3(2), dim3(32), out.as<float>());
  }();
  CHECK(has(unwritten, "thread (31,0,0) of block ("));
  CHECK(has(unwritten, "reads room, byte 128: shared memory that its block has not written"));
  CHECK(fault_of(beyond_shared_kernel, dim3(1), dim3(32), out.as<float>(), 32) == "");
  CHECK(has(fault_of(beyond_shared_kernel, dim3(1), dim3(32), out.as<float>(), 33),
            "shared memory beyond its variables"));
}

TEST_CASE("emulation: a variable of another thread") {
  const Taken out(256);
  const std::string fault = fault_of(others_memory_kernel, dim3(1), dim3(3), out.as<int>());
  CHECK(has(fault, "others_memory_kernel"));
  CHECK(has(fault, "memory of another thread"));
}

TEST_CASE("emulation: after a fault the next kernel runs") {
  const Taken device(40);
  float host = 0;
  CHECK(has(fault_of(add_one_kernel, dim3(1), dim3(1), device.as<float>(), &host, 1), "reads"));
  CHECK(fault_of(add_one_kernel, dim3(3), dim3(4), device.as<float>(), device.as<float>(), 10) ==
        "");
}

TEST_SUITE_END();
