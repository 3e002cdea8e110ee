// A snapshot that goes to the host while the GPU computes: what it holds, on a GPU or an emulated
// one. What waits for what: snapshot_order_test.cpp.
#include <doctest/doctest.h>

#include <vector>

#include "../cuda_case.h"
#include "../emulated_order.h"
#include "lathe/core/cuda.h"
#include "lathe/core/error.h"
#include "lathe/core/stream.h"
#include "lathe/ops/creation.h"
#include "lathe/tests/train/saved_number.h"
#include "lathe/train/snapshot.h"

using namespace lathe;
using namespace lathe::train;
using lathe::test::Number;
using lathe::test::state_of;
using lathe::test::values_of;

namespace {

const Device kGpu(DeviceType::kCUDA);

std::vector<float> all(float value) { return std::vector<float>(24, value); }

}  // namespace

TEST_CASE("snapshot: whenever the copies run, it has the values from its begin" *
          lathe::test::cuda_case()) {
  for (uint64_t seed = 1; seed <= 20; ++seed) {
    const test::EmulatedOrder order(seed, 1);
    Number number;
    number.value = full({2, 3, 4}, 0, {.device = kGpu});
    Snapshot good, candidate;
    for (int step = 1; step <= 4; ++step) {
      for (int again = 0; again < 20; ++again) number.value.fill_(static_cast<double>(step));
      candidate.begin(state_of(number));
      number.value.fill_(-1.0);
      const Tensor reuses_memory = full({2, 3, 4}, -2, {.device = kGpu});
      if (seed % 2 == 0) synchronize(current_stream(kGpu));
      candidate.finish();
      std::swap(good, candidate);
      CHECK(values_of(good) == all(static_cast<float>(step)));
      if (step > 1) CHECK(values_of(candidate) == all(static_cast<float>(step - 1)));
    }
  }
}

TEST_CASE("snapshot: one that is begun again or dropped was complete before" *
          lathe::test::cuda_case()) {
  Number number;
  number.value = full({2, 3, 4}, 1, {.device = kGpu});
  Snapshot snapshot;
  snapshot.begin(state_of(number));
  number.value.fill_(2.0);
  snapshot.begin(state_of(number));
  number.value.fill_(3.0);
  snapshot.take(state_of(number));
  CHECK(values_of(snapshot) == all(3));
  {
    Snapshot dropped;
    dropped.begin(state_of(number));
  }
  cuda::synchronize(kGpu);
  CHECK(values_of(snapshot) == all(3));
}

TEST_CASE("snapshot: without memory on the GPU for the values, it waits as take() does" *
          lathe::test::cuda_case()) {
  Number number;
  number.value = full({2, 3, 4}, 1, {.device = kGpu});
  cuda::synchronize(kGpu);
  cuda::empty_cache();
  const uint64_t waits = cuda::counters().synchronizations;
  Snapshot snapshot;
  {
    const ArmedFault full_gpu(cuda::allocation_fault(), 1, FaultPoint::kForever);
    snapshot.begin(state_of(number));
  }
  CHECK(cuda::counters().synchronizations > waits);
  CHECK(values_of(snapshot) == all(1));
  snapshot.finish();
}
