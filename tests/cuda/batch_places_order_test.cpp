// What waits for what where batches lie in places (data/device/batch_places.h): on the emulated GPU, whose
// queues run as late as they may.
#include <doctest/doctest.h>

#include <vector>

#include "../cuda_case.h"
#include "../emulation/kernel_access.h"
#include "../emulation/schedule.h"
#include "lathe/data/device/batch_places.h"
#include "lathe/lathe.h"

using namespace lathe;

namespace {

const Device kGpu(DeviceType::kCUDA);

}  // namespace

TEST_CASE("batch places: a place is filled while the other one is read, and then waits for it" *
          test::cuda_case()) {
  const emulation::ScheduleScope late({.seed = 1});
  const emulation::WatchScope looks_without_waiting(emulation::Watch::kNothing);
  const OwnedStream copies, user, other;
  const Tensor like = zeros({4}, {.device = kGpu}), steps = zeros({4}, {.device = kGpu});
  cuda::synchronize(kGpu);
  const auto steps_run = [&] {
    const StreamScope on(other);
    return steps.cpu().to_vector<float>()[0];
  };
  data::BatchPlaces places;
  std::vector<data::BatchPlaces::Place*> taken;
  for (int batch = 0; batch < 3; ++batch) {
    places.end_use(user);
    taken.push_back(&places.take({like}, copies));
    {
      const StreamScope on(copies);
      taken.back()->tensors[0].fill_(static_cast<double>(batch));
    }
    places.hand_out(*taken.back());
    const StreamScope on(user);
    steps.add_(1.0);  // a step; nobody waits for it
    synchronize(copies);
    CHECK(steps_run() == (batch < 2 ? 0 : 1));
  }
  CHECK(taken[0] != taken[1]);
  CHECK(taken[0] == taken[2]);
}
