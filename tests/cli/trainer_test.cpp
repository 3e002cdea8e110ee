// How training ends when a sample cannot be read: a data set of our own gives the errors. The other
// ways to end are driven from outside, in stop_test.py.
#include "lathe/tools/cli/training/trainer.h"

#include <doctest/doctest.h>

#include "../cuda_case.h"
#include "lathe/core/file.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/binary.h"
#include "lathe/tests/cli/small_run.h"

using namespace lathe;
using namespace lathe::cli;
using lathe::test::add_linear;
using lathe::test::Run;

namespace {

/// The loss is finite; the gradient is not: that of sqrt at 0.
struct Steep : nn::Module {
  nn::Linear fc{*this, "fc", 4, 2};
  Tensor forward(const Tensor& x) override {
    const Tensor zero = fc.weight.sum() * 0.0;
    return fc(x.flatten(1)) + zero.sqrt();
  }
};

}  // namespace

TEST_CASE("trainer: a sample that cannot be read ends in exit code 3, with the weights saved") {
  Run run({.bad_train = 5});  // in the third batch
  add_linear(run.model);
  CHECK(run.failure("sample 5: file: cannot read images/5") == ExitCode::kData);
  const auto saved = run.saved();
  CHECK(saved.metadata.at("lathe.step") == "2");
  CHECK(saved.tensors.at("1.weight").to_vector<float>() ==
        run.model.state_dict().at("1.weight").to_vector<float>());
}

TEST_CASE("trainer: an error after the loss diverged unseen on a GPU saves the last good weights" *
          lathe::test::cuda_case()) {
  Run run({.bad_train = 5});
  run.model.add<Steep>();  // the first step makes the weights NaN, the second one's loss
  run.to(Device(DeviceType::kCUDA));
  const auto before = run.model.state_dict().clone();
  CHECK(run.failure("sample 5: file: cannot read images/5") == ExitCode::kData);
  const auto saved = run.saved();
  CHECK(saved.metadata.at("lathe.step") == "0");
  for (const auto& [name, values] : before) {
    CHECK(saved.tensors.at(name).to_vector<float>() == values.to_vector<float>());
  }
}

TEST_CASE("trainer: so does one of the test set, after the epoch") {
  Run run({.bad_test = 3});
  add_linear(run.model);
  CHECK(run.failure("sample 3") == ExitCode::kData);
  CHECK(run.saved().metadata.at("lathe.step") == "4");
}

TEST_CASE(
    "trainer: gradients that overflow at any scale end in exit code 6, with the weights saved") {
  Run run;
  run.model.add<Steep>();
  run.settings.amp = "fp16";
  run.settings.init_scale = 0x1p-13;
  const auto before = run.model.state_dict().clone();
  CHECK(run.failure("in step 2 the loss scale would have fallen") == ExitCode::kDiverged);
  const auto saved = run.saved();
  CHECK(saved.metadata.at("lathe.step") == "2");
  for (const auto& [name, values] : before) {
    CHECK(saved.tensors.at(name).to_vector<float>() == values.to_vector<float>());
  }
}

TEST_CASE("trainer: a folder that takes no weights is the error, and is not tried again") {
  Run run;
  add_linear(run.model);
  const ArmedFault full_disk(file_faults().write, 1, FaultPoint::kForever);
  CHECK(run.failure("file: cannot write") == ExitCode::kError);
  CHECK(file_faults().write.calls() == 1);
  CHECK_FALSE(std::filesystem::exists(run.folder.path() / "last.safetensors"));
}
