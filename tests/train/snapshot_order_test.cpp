// A snapshot that goes to the host while the GPU computes: what waits for what, on the emulated GPU,
// whose queues run as late as they may. What it holds: snapshot_stream_test.cpp.
#include <doctest/doctest.h>

#include <vector>

#include "../cuda_case.h"
#include "../emulation/schedule.h"
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

TEST_CASE("snapshot: while it is copied, the GPU computes, and the host goes on" *
          lathe::test::cuda_case()) {
  const emulation::ScheduleScope late({.seed = 1});
  Number number;
  number.value = full({2, 3, 4}, 1, {.device = kGpu});
  Snapshot snapshot;
  snapshot.begin(state_of(number));
  snapshot.finish();
  CHECK(values_of(snapshot) == all(1));
  number.value.fill_(2.0);
  cuda::synchronize(kGpu);

  const uint64_t waits = cuda::counters().synchronizations;
  snapshot.begin(state_of(number));
  CHECK(cuda::counters().synchronizations == waits);
  number.value.fill_(3.0);  // the next step
  synchronize(current_stream(kGpu));
  CHECK(number.value.cpu().to_vector<float>() == all(3));
  CHECK(values_of(snapshot) == all(1));  // that step has run, and did not wait for the copy
  snapshot.finish();
  CHECK(values_of(snapshot) == all(2));
  CHECK(snapshot.checkpoint().tensors.at("value").is_pinned());
}
