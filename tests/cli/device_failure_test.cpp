// What a GPU that fails for good leaves of a training; on the emulated one, where that can be
// arranged.
#include "lathe/tests/emulation/device_failure.h"

#include <doctest/doctest.h>

#include <vector>

#include "../cuda_case.h"
#include "lathe/tests/cli/small_run.h"

using namespace lathe;

namespace {

/// A linear layer whose GPU fails in the forward pass number `last` (the first is 1).
struct Doomed : nn::Module {
  explicit Doomed(int64_t last_pass) : last(last_pass) {}
  Tensor forward(const Tensor& x) override {
    seen.push_back(fc.weight.cpu().to_vector<float>());
    if (static_cast<int64_t>(seen.size()) == last) emulation::kernel_fault().fail_at(1);
    return fc(x.flatten(1));
  }
  nn::Linear fc{*this, "fc", 4, 2};
  int64_t last;
  std::vector<std::vector<float>> seen;  // the weights before each step
};

}  // namespace

TEST_CASE("trainer: a GPU that fails for good leaves the last state that is known to be good" *
          lathe::test::cuda_case()) {
  struct {
    int64_t fails_in, saved;     // steps, the first is 1; how many of them the file has seen
  } const cases[] = {{1, 0},     // nothing was queued before
                     {9, 0},     // the losses since the start are still on the GPU
                     {51, 0},    // they have been read, but not the one that the copy waits for
                     {52, 50}};  // it was finite
  for (const auto& [fails_in, saved] : cases) {
    CAPTURE(fails_in);
    lathe::test::Run run({.steps = 53});
    run.settings.log_every = 50;
    auto& doomed = run.model.add<Doomed>(fails_in);
    run.to(Device(DeviceType::kCUDA));
    CHECK_THROWS_AS(run(), CudaError);
    emulation::kernel_fault().disarm();
    emulation::replace_devices();
    const auto contents = run.saved();
    CHECK(contents.metadata.at("lathe.step") == std::to_string(saved));
    CHECK(contents.tensors.at("0.fc.weight").to_vector<float>() ==
          doomed.seen[static_cast<size_t>(saved)]);
  }
}
