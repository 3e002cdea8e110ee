// What a GPU that fails for good leaves of a training; on the emulated one, where that can be
// arranged.
#include "lathe/tests/emulation/device_failure.h"

#include <doctest/doctest.h>

#include <vector>

#include "../cuda_case.h"
#include "lathe/tests/cli/small_run.h"

using namespace lathe;

namespace {

/// A linear layer whose GPU fails in the forward pass number `last` (the first is 1): in the pass
/// itself, or in copy number `copy` to the host from there on.
struct Doomed : nn::Module {
  explicit Doomed(int64_t last_pass, int64_t last_copy = 0) : last(last_pass), copy(last_copy) {}
  Tensor forward(const Tensor& x) override {
    seen.push_back(fc.weight.cpu().to_vector<float>());
    if (static_cast<int64_t>(seen.size()) == last) {
      copy > 0 ? emulation::copy_fault().fail_at(copy) : emulation::kernel_fault().fail_at(1);
    }
    return fc(x.flatten(1));
  }
  nn::Linear fc{*this, "fc", 4, 2};
  int64_t last, copy;
  std::vector<std::vector<float>> seen;  // the weights before each step
};

void run_into_failure(lathe::test::Run& run) {
  run.to(Device(DeviceType::kCUDA));
  CHECK_THROWS_AS(run(), CudaError);
  emulation::kernel_fault().disarm();
  emulation::copy_fault().disarm();
  emulation::replace_devices();
}

void check_saved(const lathe::test::Run& run, int64_t step, const std::vector<float>& weights) {
  const auto contents = run.saved();
  CHECK(contents.metadata.at("lathe.step") == std::to_string(step));
  CHECK(contents.tensors.at("0.fc.weight").to_vector<float>() == weights);
}

}  // namespace

TEST_CASE("trainer: a GPU that fails for good leaves the last state that is known to be good" *
          lathe::test::cuda_case()) {
  struct {
    int64_t fails_in, saved;  // steps, the first is 1; how many of them the file has seen
    int64_t save_every = 0, log_every = 50;
    int64_t copy = 0;               // of that step
  } const cases[] = {{1, 0},        // nothing was queued before
                     {9, 0},        // the losses since the start are still on the GPU
                     {51, 0},       // they have been read, but not the one that the copy waits for
                     {52, 50},      // it was finite
                     {3, 2, 2, 2},  // what was saved when they had been read stays
                     {3, 0, 1},     // what was saved before that does not
                     {3, 0, 1, 50, 2},  // between the copies of a save
                     {3, 2, 1, 2, 2}};
  for (const auto& c : cases) {
    CAPTURE(c.fails_in);
    CAPTURE(c.save_every);
    CAPTURE(c.copy);
    lathe::test::Run run({.steps = 53});
    run.settings.log_every = c.log_every;
    run.settings.save_every = c.save_every;
    auto& doomed = run.model.add<Doomed>(c.fails_in, c.copy);
    run_into_failure(run);
    check_saved(run, c.saved, doomed.seen[static_cast<size_t>(c.saved)]);
  }
}

TEST_CASE("trainer: a GPU that fails leaves what the end of an epoch has saved" *
          lathe::test::cuda_case()) {
  constexpr int64_t kSteps = 5, kEvaluation = 4;  // passes of an epoch
  lathe::test::Run run({.steps = 2 * kSteps});
  run.train.loader =
      data::DataLoader(lathe::test::images(kSteps * run.kBatch, -1), {.batch_size = run.kBatch});
  run.settings.epochs = 2;
  auto& doomed = run.model.add<Doomed>(kSteps + kEvaluation + 3);
  run_into_failure(run);
  check_saved(run, kSteps, doomed.seen[static_cast<size_t>(kSteps)]);
  const auto best = safetensors::read((run.folder.path() / "best.safetensors").string());
  CHECK(best.metadata.at("lathe.step") == std::to_string(kSteps));  // going on does not remove it
}
