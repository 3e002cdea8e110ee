// GradScaler on a stream that is being captured into a graph, where no event may be asked.
#include <doctest/doctest.h>

#include "lathe/optim/grad_scaler.h"
#include "lathe/optim/sgd.h"
#include "lathe/tests/emulation/captured_stream.h"
#include "loss_scaling.h"

namespace lathe {
namespace {

using namespace test;

struct Capture {
  explicit Capture(Stream stream) {
    emulation::pretend_capture(static_cast<cudaStream_t>(stream.native));
  }
  ~Capture() { emulation::pretend_capture(nullptr); }
};

TEST_CASE("GradScaler: captured steps ask no event and report nothing; the scale follows them") {
  if (!cuda_is_available()) return;
  const Device device(DeviceType::kCUDA);
  const OwnedStream stream;
  const StreamScope on(stream);
  optim::SGD optimizer({param(ones({2}), device)}, {.lr = 0.1});
  optim::GradScaler scaler({.init_scale = 512});
  begin(scaler, device);
  const auto step = [&](double gradient) {
    optimizer.params()[0].set_grad(full({2}, gradient, {.device = device}));
    scaler.step(optimizer);
    scaler.update();
  };
  step(kInfinity);  // its report is on the way
  {
    const Capture capture(stream);
    step(kInfinity);
    step(1);
    CHECK(scaler.progress().steps == 0);
  }
  synchronize(stream);
  CHECK(scaler.progress().steps == 1);
  CHECK(scaler.read_progress().steps == 3);  // what a checkpoint takes is of every step
  CHECK(scaler.read_progress().skipped == 2);
  CHECK(scaler.read_progress().scale == 128);
  {
    const Capture capture(stream);
    step(1);  // with no report on the way
  }
  synchronize(stream);
  CHECK(scaler.progress().steps == 1);
  step(1);
  synchronize(stream);
  CHECK(scaler.progress().steps == 5);
  CHECK(scaler.progress().skipped == 2);
  CHECK(scaler.get_scale() == 128);
}

}  // namespace
}  // namespace lathe
