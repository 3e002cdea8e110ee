// How training ends when a sample cannot be read: a data set of our own gives the errors. The other
// ways to end are driven from outside, in stop_test.py.
#include "lathe/tools/cli/trainer.h"

#include <doctest/doctest.h>

#include <memory>

#include "../cuda_case.h"
#include "lathe/core/error.h"
#include "lathe/core/file.h"
#include "lathe/core/safetensors.h"
#include "lathe/data/dataset.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/optim/sgd.h"
#include "lathe/tests/cli/temporary_folder.h"

using namespace lathe;
using namespace lathe::cli;
using lathe::test::TemporaryFolder;

namespace {

constexpr int64_t kSamples = 8, kBatch = 2;

/// Images [1,2,2]; sample `bad` is on a disk that does not answer.
std::shared_ptr<const data::Dataset> samples(int64_t bad) {
  return std::make_shared<data::FunctionDataset>(data::from_function(kSamples, [bad](int64_t i) {
    if (i == bad) throw FileError("file: cannot read images/" + std::to_string(i));
    return data::Example{full({1, 2, 2}, static_cast<double>(i % 2)),
                         full({}, i % 2, {.dtype = kI64})};
  }));
}

/// The loss is finite; the gradient is not: that of sqrt at 0.
struct Steep : nn::Module {
  nn::Linear fc{*this, "fc", 4, 2};
  Tensor forward(const Tensor& x) override {
    const Tensor zero = fc.weight.sum() * 0.0;
    return fc(x.flatten(1)) + zero.sqrt();
  }
};

/// What train.cpp puts together, in small.
struct Run {
  explicit Run(int64_t bad_train, int64_t bad_test = -1, bool steep = false)
      : train{data::DataLoader(samples(bad_train), {.batch_size = kBatch}), kCPU},
        test{data::DataLoader(samples(bad_test), {.batch_size = kBatch}), kCPU} {
    settings.dataset = "samples";
    settings.model = "linear";
    settings.epochs = 1;
    settings.batch_size = kBatch;
    settings.quiet = true;
    settings.progress = "none";
    if (steep) {
      model.add<Steep>();
      return;
    }
    model.add<nn::Flatten>();
    model.add<nn::Linear>(4, 2);
  }

  ExitCode operator()() {
    optim::SGD optimizer(model.parameters(), {.lr = 0.1});
    optim::LambdaLR schedule(optimizer, [](int64_t) { return 1.0; });
    Trainer trainer({settings, model, schedule, train, test, out, log}, kSamples / kBatch);
    trainer.open(folder.path(), false);
    return trainer.run();
  }

  /// The exit code of an error, after checking its text.
  ExitCode failure(const char* text) {
    try {
      (*this)();
    } catch (const CommandError& e) {
      CHECK(std::string(e.what()).find(text) != std::string::npos);
      return e.code();
    }
    FAIL("training ended well");
    return ExitCode::kDone;
  }

  TemporaryFolder folder;
  Settings settings;
  nn::Sequential model;
  Input train, test;
  Output out{false};
  Log log{true};
};

}  // namespace

TEST_CASE("trainer: a sample that cannot be read ends in exit code 3, with the weights saved") {
  Run run(5);  // in the third batch
  CHECK(run.failure("sample 5: file: cannot read images/5") == ExitCode::kData);
  const auto saved = safetensors::read((run.folder.path() / "last.safetensors").string());
  CHECK(saved.metadata.at("lathe.step") == "2");
  CHECK(saved.tensors.at("1.weight").to_vector<float>() ==
        run.model.state_dict().at("1.weight").to_vector<float>());
}

TEST_CASE("trainer: an error after the loss diverged unseen on a GPU saves the last good weights" *
          lathe::test::cuda_case()) {
  Run run(5, -1, true);  // the first step makes the weights NaN, the second one's loss
  run.train.device = run.test.device = Device(DeviceType::kCUDA);
  run.model.to(run.train.device);
  const auto before = run.model.state_dict().clone();
  CHECK(run.failure("sample 5: file: cannot read images/5") == ExitCode::kData);
  const auto saved = safetensors::read((run.folder.path() / "last.safetensors").string());
  CHECK(saved.metadata.at("lathe.step") == "0");
  for (const auto& [name, values] : before) {
    CHECK(saved.tensors.at(name).to_vector<float>() == values.to_vector<float>());
  }
}

TEST_CASE("trainer: so does one of the test set, after the epoch") {
  Run run(-1, 3);
  CHECK(run.failure("sample 3") == ExitCode::kData);
  CHECK(safetensors::read((run.folder.path() / "last.safetensors").string())
            .metadata.at("lathe.step") == "4");
}

TEST_CASE(
    "trainer: gradients that overflow at any scale end in exit code 6, with the weights saved") {
  Run run(-1, -1, true);
  run.settings.amp = "fp16";
  run.settings.init_scale = 0x1p-13;
  const auto before = run.model.state_dict().clone();
  CHECK(run.failure("in step 2 the loss scale would have fallen") == ExitCode::kDiverged);
  const auto saved = safetensors::read((run.folder.path() / "last.safetensors").string());
  CHECK(saved.metadata.at("lathe.step") == "2");
  for (const auto& [name, values] : before) {
    CHECK(saved.tensors.at(name).to_vector<float>() == values.to_vector<float>());
  }
}

TEST_CASE("trainer: a folder that takes no weights is the error, and is not tried again") {
  Run run(-1);
  const ArmedFault full_disk(file_faults().write, 1, FaultPoint::kForever);
  CHECK(run.failure("file: cannot write") == ExitCode::kError);
  CHECK(file_faults().write.calls() == 1);
  CHECK_FALSE(std::filesystem::exists(run.folder.path() / "last.safetensors"));
}
