// The fault record while a stream is being captured into a graph.
#include <doctest/doctest.h>

#include "lathe/core/cuda.h"
#include "lathe/core/gpu/device_fault.h"
#include "lathe/core/stream.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/index.h"
#include "lathe/tests/emulation/captured_stream.h"

using namespace lathe;

namespace {
struct Capture {
  explicit Capture(Stream stream) {
    emulation::pretend_capture(static_cast<cudaStream_t>(stream.native));
  }
  ~Capture() { emulation::pretend_capture(nullptr); }
};
}  // namespace

TEST_CASE("device faults in captures: the first use is no end of the capture, nor is a fault") {
  if (!cuda_is_available()) return;
  const Device gpu(DeviceType::kCUDA);
  const OwnedStream stream(gpu);
  const StreamScope on(stream);
  const Tensor x = zeros({5, 2}, {.device = gpu});
  const Tensor index = cast(tensor({7}), kI64).to(gpu);
  {
    const Capture capture(stream);
    CHECK(cuda::device_fault(gpu) != nullptr);
  }
  const Tensor y = index_select(x, 0, index);
  Event now(gpu);
  now.record(stream);
  while (!now.done()) {
  }
  {
    const Capture capture(stream);
    CHECK(cuda::take_fault(gpu).raised == 0);  // clearing it would be a part of the graph
  }
  CHECK_THROWS_AS(synchronize(stream), IndexError);
  synchronize(stream);
}
