// Gate::open_for_block: one answer for a block, whatever happens to the flag meanwhile.
#include <doctest/doctest.h>

#include <algorithm>
#include <vector>

#include "emulated_block.h"
#include "lathe/optim/kernels/update_frame.cuh"
#include "run_now.h"
#include "schedule.h"

using namespace lathe;
using optim::cuda::Gate;

namespace {

// As a kernel on another stream does it: an order that ThreadSanitizer looks for is not there.
LATHE_UNSEEN void note_fault(DeviceFault* fault) { fault->raised = 1; }

// Some threads note a fault, as a kernel on another stream may at any moment. All threads of the
// block must agree, or some would wait at the barrier for others that have gone.
__global__ void gate_kernel(Gate gate, DeviceFault* fault, int* seen) {
  if (threadIdx.x % 7 == 3) note_fault(fault);
  const bool is_open = gate.open_for_block();
  if (threadIdx.x % 5 == 1) note_fault(fault);
  seen[threadIdx.x] = is_open ? 1 : 0;
  if (!is_open) return;
  __syncthreads();
}

__global__ void each_thread_kernel(Gate gate, DeviceFault* fault, int* seen) {
  if (threadIdx.x % 7 == 3) note_fault(fault);
  seen[threadIdx.x] = gate.open() ? 1 : 0;
}

/// How many of 64 threads found it open.
template <class Kernel>
std::ptrdiff_t open_threads(Kernel* kernel, uint64_t seed, bool flag) {
  const emulation::ScheduleScope scope({.seed = seed});
  DeviceFault fault{0, nullptr};
  const float found_inf = flag ? 1.f : 0.f;
  std::vector<int> seen(64, -1);
  test::run_now(kernel, dim3(1), dim3(64), 0, Gate{&fault, &found_inf}, &fault, seen.data());
  return std::ranges::count(seen, 1);
}

}  // namespace

TEST_CASE("gate: the threads of a block agree while another kernel notes a fault") {
  bool was_open = false, was_closed = false, differed = false;
  for (uint64_t seed = 1; seed <= 40; ++seed) {
    const auto open = open_threads(gate_kernel, seed, false);
    CHECK((open == 0 || open == 64));
    was_open = was_open || open == 64;
    was_closed = was_closed || open == 0;
    const auto each = open_threads(each_thread_kernel, seed, false);
    differed = differed || (each > 0 && each < 64);
    CHECK(open_threads(gate_kernel, seed, true) == 0);
  }
  CHECK(was_open);
  CHECK(was_closed);
  CHECK(differed);
}
