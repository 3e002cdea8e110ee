// The fault record while a stream is being captured into a graph.
#include <doctest/doctest.h>

#include "../cuda_case.h"
#include "lathe/core/capture/cuda_graph.h"
#include "lathe/core/cuda.h"
#include "lathe/core/gpu/device_fault.h"
#include "lathe/core/stream.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/index.h"

using namespace lathe;

TEST_CASE("device faults in captures: the first use is no end of the capture, nor is a fault" *
          test::cuda_case()) {
  const Device gpu(DeviceType::kCUDA);
  const OwnedStream stream(gpu);
  const StreamScope on(stream);
  const Tensor x = zeros({5, 2}, {.device = gpu});
  const Tensor index = cast(tensor({7}), kI64).to(gpu);
  cuda::Graph first(gpu), second(gpu);
  first.capture([&] { CHECK(cuda::device_fault(gpu) != nullptr); });
  const Tensor y = index_select(x, 0, index);
  Event now(gpu);
  now.record(stream);
  while (!now.done()) {
  }
  // Clearing it would be a part of the graph.
  second.capture([&] { CHECK(cuda::take_fault(gpu).raised == 0); });
  CHECK_THROWS_AS(synchronize(stream), IndexError);
  synchronize(stream);
}
