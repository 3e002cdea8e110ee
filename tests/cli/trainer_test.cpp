// How training ends when a sample cannot be read: a data set of our own gives the errors. The other
// ways to end are driven from outside, in stop_test.py. And updates of several batches.
#include "lathe/tools/cli/training/training.h"

#include <doctest/doctest.h>

#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "../cuda_case.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/ceil_div.h"
#include "lathe/core/files/file.h"
#include "lathe/core/random/generator.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/binary.h"
#include "lathe/optim/reduce_on_plateau.h"
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

struct Parts {
  int64_t batch, accumulate = 1;
};

struct Trained {
  std::vector<float> weights;
  double loss = 0;  // mean over the images
};

/// One epoch over 18 images that all differ.
Trained train_in_parts(const Parts& parts, Device device, const std::string& amp) {
  constexpr int64_t kImages = 18;
  manual_seed(3);
  Run run;
  const auto images = data::from_function(kImages, [](int64_t i) {
    return data::Example{full({1, 2, 2}, std::sin(static_cast<double>(i))),
                         full({}, i % 3 == 0 ? 1 : 0, {.dtype = kI64})};
  });
  run.train.loader = data::DataLoader(std::make_shared<data::FunctionDataset>(images),
                                      {.batch_size = parts.batch});
  add_linear(run.model);
  run.to(device);
  run.steps = ceil_div(ceil_div(kImages, parts.batch), parts.accumulate);
  run.settings.accumulate = parts.accumulate;
  run.settings.amp = amp;
  CHECK(run() == ExitCode::kDone);
  const auto saved = run.saved().tensors;
  CHECK(saved.at("trainer.step").item<double>() == static_cast<double>(run.steps));
  return {saved.at("1.weight").to_vector<float>(),
          saved.at("trainer.epoch_tally.loss_sum").item<double>() / kImages};
}

/// An update of several batches is that of one batch with their images, also where the last batch
/// is smaller than the others.
void check_updates_of_parts(Device device) {
  const std::vector<Parts> same_steps[] = {
      {{.batch = 12}, {4, 3}, {6, 2}, {3, 4}},  // 12 images, then 6: 4 and 2 in the first case
      {{.batch = 18}, {8, 3}, {8, 5}, {5, 4}, {17, 2}}};  // 18 images: 8, 8 and 2
  for (const std::string amp : {"off", "fp16"}) {
    const double tolerance = amp == "off" ? 1e-6 : 2e-3;  // roundings of f32; of f16, 2^-11 each
    for (const auto& cases : same_steps) {
      const Trained large = train_in_parts(cases[0], device, amp);
      for (const Parts& parts : cases) {
        CAPTURE(amp);
        CAPTURE(parts.batch);
        CAPTURE(parts.accumulate);
        const Trained small = train_in_parts(parts, device, amp);
        CHECK(small.loss == doctest::Approx(large.loss).epsilon(tolerance));
        for (size_t i = 0; i < large.weights.size(); ++i)
          CHECK(std::abs(small.weights[i] - large.weights[i]) < tolerance);
      }
    }
  }
}

}  // namespace

TEST_CASE("trainer: an update of several batches is that of one large batch") {
  check_updates_of_parts(kCPU);
}

TEST_CASE("trainer: so it is on a GPU" * lathe::test::cuda_case()) {
  check_updates_of_parts(Device(DeviceType::kCUDA));
}

TEST_CASE("trainer: a sample that cannot be read ends in exit code 3, with the weights saved") {
  Run run({.bad_train = 5});  // in the third batch
  add_linear(run.model);
  CHECK(run.failure("sample 5: images/5: cannot read") == ExitCode::kData);
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
  CHECK(run.failure("sample 5: images/5: cannot read") == ExitCode::kData);
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

TEST_CASE(
    "trainer: after a resume with other images to evaluate, the next evaluation is the best") {
  struct Result {
    double best;
    StateDict schedule;
    Checkpoint saved;
  };
  const auto trained = [](const Checkpoint* from, const train::Unchanged& same) {
    Run run;
    add_linear(run.model);
    optim::SGD optimizer(run.model.parameters(), {.lr = 0.1});
    optim::ReduceLROnPlateau schedule(optimizer);
    Training training({run.settings, run.model, schedule, run.train, run.test, run.out, run.log},
                      4);
    train::Trainer& trainer = training.trainer();
    if (from != nullptr) CHECK(trainer.resume(*from, "last.safetensors", same) == 4);
    trainer.use_folder(run.folder.path(), false, {});
    CHECK(training.run() == ExitCode::kDone);
    const std::string last = (run.folder.path() / "last.safetensors").string();
    const bool is_saved = std::filesystem::exists(last);  // a run that was over saves nothing
    return Result{trainer.best(), schedule.memory(),
                  is_saved ? read_checkpoint(last) : Checkpoint()};
  };
  Checkpoint easy = trained(nullptr, {}).saved;  // as if the images so far had been easy
  StateDict changed;
  for (const auto& [name, value] : easy.tensors) {
    if (name == "trainer.best_accuracy") {
      changed.add_number(name, 2.0);
    } else if (name == "scheduler.best") {
      changed.add_number(name, 1e-9);
    } else {
      changed.add(name, value);
    }
  }
  easy.tensors = std::move(changed);
  const auto number = [](const StateDict& state, const char* name) {
    return state.at(name).item<double>();
  };
  const Result same = trained(&easy, {}), other = trained(&easy, {.evaluated = false});
  CHECK(same.best == 2);
  CHECK(number(same.schedule, "best") == 1e-9);
  const StateDict trainer = checkpoint_section(other.saved, "trainer");
  CHECK(other.best == number(trainer, "last_accuracy"));
  CHECK(number(trainer, "best_accuracy") == other.best);
  CHECK(number(trainer, "best_epoch") == 1);
  CHECK(number(other.schedule, "best") == number(trainer, "last_loss"));
}

TEST_CASE("trainer: --scheduler plateau looks at the loss, whatever the accuracy does") {
  Run run({.steps = 1});
  add_linear(run.model);
  run.settings.epochs = 3;
  optim::SGD optimizer(run.model.parameters(), {.lr = 0.1});
  optim::ReduceLROnPlateau schedule(optimizer, {.patience = 0});
  // Images of class 0 are zeros, those of class 1 ones. Hardly right on both: a loss of 0.69. Sure
  // of class 0, and hardly wrong on class 1: half of that. A step is an epoch.
  const auto set = [&](double class_0, double class_1) {
    const NoGrad off;
    const Tensor weight = run.model.parameters()[0], bias = run.model.parameters()[1];
    weight.fill_(0);
    weight.select(0, 1).fill_((class_0 + class_1) / 4);
    bias.fill_(0);
    bias.select(0, 0).fill_(class_0);
  };
  std::vector<double> rates;
  Training training({.settings = run.settings,
                     .model = run.model,
                     .schedule = schedule,
                     .train = run.train,
                     .test = run.test,
                     .out = run.out,
                     .log = run.log,
                     .after_step =
                         [&](int64_t step) {
                           rates.push_back(optimizer.lr());
                           step == 2 ? set(20, -0.01) : set(0.01, 0.01);
                           return true;
                         }},
                    3);
  training.trainer().use_folder(run.folder.path(), false, {});
  CHECK(training.run() == ExitCode::kDone);
  CHECK(rates == std::vector<double>{0.1, 0.1, 0.1});  // the second one is less accurate
  CHECK(optimizer.lr() == doctest::Approx(0.01));      // the third one is more accurate
}

TEST_CASE(
    "trainer: a run that went back keeps the better one of what best holds and what is left") {
  const auto best_after_going_back = [](double best_so_far, double of_file) {
    Run run;
    add_linear(run.model);
    const auto train_from = [&](const Checkpoint* from) {
      optim::SGD optimizer(run.model.parameters(), {.lr = 0.1});
      optim::LambdaLR schedule(optimizer, [](int64_t) { return 1.0; });
      Training training({run.settings, run.model, schedule, run.train, run.test, run.out, run.log},
                        4);
      train::Trainer& trainer = training.trainer();
      if (from != nullptr) CHECK(trainer.resume(*from, "last.safetensors") == 2);
      trainer.use_folder(run.folder.path(), from != nullptr,
                         from != nullptr ? std::optional(of_file) : std::nullopt);
      CHECK(training.run() == ExitCode::kDone);
    };
    run.settings.stop_after = 2;
    train_from(nullptr);
    Checkpoint paused = read_checkpoint((run.folder.path() / "last.safetensors").string());
    StateDict changed;
    for (const auto& [name, value] : paused.tensors) {
      if (name == "trainer.best_accuracy") {
        changed.add_number(name, best_so_far);
      } else if (name == "trainer.best_epoch") {
        changed.add_number(name, 1);
      } else {
        changed.add(name, value);
      }
    }
    paused.tensors = std::move(changed);
    run.settings.stop_after = 0;
    train_from(&paused);  // its accuracy is at least a half
    return std::filesystem::exists(run.folder.path() / "best.safetensors");
  };
  CHECK(best_after_going_back(2, 0.1));        // the better one is gone
  CHECK(best_after_going_back(0.1, 2));        // it is one of other images
  CHECK_FALSE(best_after_going_back(2, 1.5));  // it is there
}

TEST_CASE("trainer: a folder that takes no weights is the error, and is not tried again") {
  Run run;
  add_linear(run.model);
  const ArmedFault full_disk(file_faults().write, 1, FaultPoint::kForever);
  CHECK(run.failure(": cannot write: ") == ExitCode::kError);
  CHECK(file_faults().write.calls() == 1);
  CHECK_FALSE(std::filesystem::exists(run.folder.path() / "last.safetensors"));
}
