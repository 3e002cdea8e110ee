// Trainer as a program uses it: any loader, any loss, pauses and resumes. The command's use of it is
// tested from outside (tests/cli).
#include "lathe/train/trainer.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <csignal>
#include <map>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/formats/safetensors.h"
#include "lathe/core/random/generator.h"
#include "lathe/data/data_loader.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/containers.h"
#include "lathe/nn/dropout.h"
#include "lathe/nn/linear.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/ops/losses/losses.h"
#include "lathe/ops/reduce.h"
#include "lathe/ops/unary.h"
#include "lathe/optim/sgd.h"
#include "lathe/tests/cli/temporary_folder.h"
#include "lathe/tests/train/small_training.h"
#include "lathe/train/metrics_files.h"
#include "lathe/train/stop_signals.h"

using namespace lathe;
using lathe::test::Net;
using lathe::test::Pair;
using lathe::test::pairs;
using lathe::test::TemporaryFolder;
using lathe::test::values_of;
namespace fs = std::filesystem;

namespace {

/// Writes down what it is told.
struct Listener : train::Observer {
  std::vector<std::string> heard;
  int64_t stop_at = 0;

  void on_start(train::Trainer&) override { heard.emplace_back("start"); }
  void on_step(train::Trainer& trainer) override {
    heard.push_back("step " + std::to_string(trainer.step()));
    if (trainer.step() == stop_at) trainer.stop();
  }
  void on_evaluation(train::Trainer&, const train::MetricsRow& row) override {
    heard.push_back(row.split + " " + std::to_string(row.epoch));
  }
  void on_epoch(train::Trainer&, const train::EpochReport& report) override {
    heard.push_back("epoch " + std::to_string(report.epoch));
  }
  void on_end(train::Trainer&, const train::FitResult&) override { heard.emplace_back("end"); }
};

}  // namespace

TEST_CASE("trainer: without options it trains an epoch, evaluates, and writes nothing") {
  const TemporaryFolder folder;
  const fs::path before = fs::current_path();
  fs::current_path(folder.path());
  Net net;
  const auto listener = std::make_shared<Listener>();
  train::Trainer trainer(net.model, *net.optimizer);
  CHECK(trainer.progress().total == 0);  // nothing has begun
  CHECK_FALSE(trainer.scales_loss());
  CHECK(trainer.ema() == nullptr);
  const train::FitResult result = trainer.add(listener).fit(net.train, net.test);
  fs::current_path(before);
  CHECK(result.end == train::End::kEpochs);
  CHECK(result.steps == 6);
  CHECK(result.evaluated);
  CHECK(result.best == train::value_of(result.metrics, "accuracy"));
  CHECK(fs::is_empty(folder.path()));
  CHECK(listener->heard == std::vector<std::string>{"start", "step 1", "step 2", "step 3", "step 4",
                                                    "step 5", "step 6", "val 1", "epoch 1", "end"});
  CHECK_THROWS_AS(trainer.fit(net.train), StateError);
}

TEST_CASE("trainer: the weights are those of a loop by hand") {
  Net net;
  train::Trainer(net.model, *net.optimizer, {.epochs = 2}).fit(net.train);
  Net again;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    again.train.set_epoch(epoch);
    again.model.train();
    for (auto& [x, y] : again.train) {
      again.optimizer->zero_grad();
      cross_entropy(again.model(x), y).backward();
      again.optimizer->step();
    }
  }
  CHECK(values_of(net.model.state_dict()) == values_of(again.model.state_dict()));
}

TEST_CASE("trainer: a run that is stopped after each step has the bits of one that is not") {
  const auto options = [](const fs::path& folder) {
    return train::TrainerOptions{.epochs = 3,
                                 .accumulate = 2,
                                 .clip_grad_norm = 1,
                                 .ema = 0.9,
                                 .run_dir = folder,
                                 .resume = "auto",
                                 .log_every = 2};
  };
  const TemporaryFolder whole, parts;
  Net net;
  const auto expected = train::Trainer(net.model, *net.optimizer, options(whole.path() / "a"))
                            .add(train::metrics_files())
                            .fit(net.train, net.test);
  CHECK(expected.steps == 9);
  train::FitResult result;
  for (int64_t step = 1; step <= 9; ++step) {
    Net part(100 + static_cast<uint64_t>(step));  // other weights and random numbers at first
    if (step == 1) part.model.load_state_dict(Net().model.state_dict());
    if (step == 1) manual_seed(3), Net();  // the generator as the whole run has it
    train::TrainerOptions each = options(parts.path() / "a");
    each.pause_after = step < 9 ? step : 0;
    train::Trainer trainer(part.model, *part.optimizer, each);
    result = trainer.add(train::metrics_files()).fit(part.train, part.test);
    CHECK(trainer.begin_step() == step - 1);
    CHECK(result.end == (step < 9 ? train::End::kPause : train::End::kEpochs));
    if (step == 9) CHECK(values_of(part.model.state_dict()) == values_of(net.model.state_dict()));
  }
  CHECK(result.loss == expected.loss);
  CHECK(result.best == expected.best);
  for (const char* file : {"last.safetensors", "best.safetensors"}) {
    const auto a = safetensors::read((whole.path() / "a" / file).string());
    const auto b = safetensors::read((parts.path() / "a" / file).string());
    CHECK(values_of(a.tensors) == values_of(b.tensors));
  }
}

TEST_CASE("trainer: a run that is over does nothing more, and says the same") {
  const TemporaryFolder folder;
  const train::TrainerOptions options{
      .epochs = 2, .run_dir = folder.path() / "a", .resume = "auto"};
  Net net, again;
  const train::FitResult first =
      train::Trainer(net.model, *net.optimizer, options).fit(net.train, net.test);
  const train::FitResult second =
      train::Trainer(again.model, *again.optimizer, options).fit(again.train, again.test);
  CHECK(second.steps == first.steps);
  CHECK(second.loss == first.loss);
  CHECK(second.best == first.best);
  CHECK(values_of(again.model.state_dict()) == values_of(net.model.state_dict()));
}

TEST_CASE("trainer: a folder that holds a run is not written over") {
  const TemporaryFolder folder;
  Net net, again;
  train::TrainerOptions options{.run_dir = folder.path() / "a"};
  train::Trainer(net.model, *net.optimizer, options).fit(net.train);
  const std::string last = (folder.path() / "a" / "last.safetensors").string();
  const std::string before = read_file(last, INT64_MAX);
  CHECK_THROWS_WITH_AS(train::Trainer(again.model, *again.optimizer, options).fit(again.train),
                       doctest::Contains("already holds a run; resume = \"auto\""), ValueError);
  CHECK(read_file(last, INT64_MAX) == before);
  // From a checkpoint into another folder: the first run stays as it is.
  options.run_dir = folder.path() / "b";
  options.resume = last;
  options.epochs = 2;
  const train::FitResult more =
      train::Trainer(again.model, *again.optimizer, options).fit(again.train);
  CHECK(more.steps == 12);
  CHECK(read_file(last, INT64_MAX) == before);
  CHECK(is_there(folder.path() / "b" / "last.safetensors"));
}

TEST_CASE("trainer: any batch, any loss, metrics of one's own") {
  nn::Sequential model;
  manual_seed(1);
  model.add<nn::Linear>(4, 4);
  optim::SGD optimizer(model.parameters(), {.lr = 0.05});
  std::vector<Pair> train_pairs = pairs(8), test_pairs = pairs(3);
  train::Trainer trainer(model, optimizer, {.epochs = 30});
  trainer.loss<Pair>([&](const Pair& batch) {
    const Tensor made = model(batch.x);
    return train::Result{mse_loss(made, batch.wanted), made, batch.wanted};
  });
  trainer.add(
      train::mean("error", [](const train::Result& r) { return abs(r.output - r.target).mean(); }));
  const train::FitResult result = trainer.fit(train_pairs, test_pairs);
  CHECK(result.loss < 0.05);
  const double error = train::value_of(result.metrics, "error");
  CHECK(error > 0);
  CHECK(error < 0.3);
  CHECK(result.best <= error);  // "error" chooses the best, and less is better
  double by_hand = 0;
  const NoGrad off;
  for (const Pair& p : test_pairs) by_hand += abs(model(p.x) - p.wanted).mean().item<double>() / 3;
  CHECK(error == doctest::Approx(by_hand).epsilon(1e-6));
}

TEST_CASE("trainer: batches may be tensors, vectors, arrays, pairs, tuples and structs") {
  const Tensor a = full({2}, 1.0), b = full({2}, 2.0), c = full({2}, 3.0);
  struct Three {
    Tensor x, y, z;
  };
  CHECK(train::tensors_of(a).size() == 1);
  CHECK(train::tensors_of(Tensors{a, b}).size() == 2);
  CHECK(train::tensors_of(std::array{a, b, c}).size() == 3);
  CHECK(train::tensors_of(std::pair(a, b)).size() == 2);
  CHECK(train::tensors_of(std::tuple(a, b, c)).size() == 3);
  const Tensors three = train::tensors_of(Three{a, b, c});
  REQUIRE(three.size() == 3);
  CHECK(three[2].to_vector<float>() == c.to_vector<float>());
  CHECK(train::batch_of<Three>(three).y.to_vector<float>() == b.to_vector<float>());
  CHECK(train::batch_of<std::pair<Tensor, Tensor>>({a, b}).second.to_vector<float>() ==
        b.to_vector<float>());
}

namespace {

/// Gives batches, and does not know how many.
struct Unsized {
  std::vector<Pair> all;
  auto begin() const { return all.begin(); }
  auto end() const { return all.end(); }
};

}  // namespace

TEST_CASE("trainer: a loader that does not know its length ends its epochs all the same") {
  const auto train_on = [](auto& loader) {
    nn::Sequential model;
    manual_seed(1);
    model.add<nn::Linear>(4, 4);
    optim::SGD optimizer(model.parameters(), {.lr = 0.05});
    train::Trainer trainer(model, optimizer, {.epochs = 2, .accumulate = 2});
    trainer.loss<Pair>([&](const Pair& p) { return mse_loss(model(p.x), p.wanted); });
    const train::FitResult result = trainer.fit(loader);
    CHECK(result.steps == 6);
    CHECK(result.end == train::End::kEpochs);
    return values_of(model.state_dict());
  };
  std::vector<Pair> sized = pairs(5);  // the last update of an epoch has one batch
  Unsized unsized{sized};
  CHECK(train_on(unsized) == train_on(sized));
}

TEST_CASE("trainer: a schedule is stepped by step, or by epoch") {
  for (const bool by_epoch : {false, true}) {
    CAPTURE(by_epoch);
    Net net;
    optim::StepLR schedule(*net.optimizer, {.step_size = 1, .gamma = 0.5});
    train::Trainer(net.model, *net.optimizer,
                   {.epochs = 3, .schedule = &schedule, .schedule_by_epoch = by_epoch})
        .fit(net.train);
    CHECK(schedule.last_epoch() == (by_epoch ? 2 : 17));
  }
}

TEST_CASE("trainer: it stops early, at a number of steps, and when an observer asks") {
  Net net;
  const auto listener = std::make_shared<Listener>();
  listener->stop_at = 4;
  CHECK(train::Trainer(net.model, *net.optimizer).add(listener).fit(net.train).end ==
        train::End::kPause);
  Net steps;
  const train::FitResult some =
      train::Trainer(steps.model, *steps.optimizer, {.epochs = 9, .max_steps = 8})
          .fit(steps.train, steps.test);
  CHECK(some.end == train::End::kSteps);
  CHECK(some.steps == 8);
  CHECK(some.evaluated);
  Net still;
  optim::SGD nothing(still.model.parameters(),
                     {.lr = 0});  // no evaluation is better than the first
  const train::FitResult early =
      train::Trainer(still.model, nothing, {.epochs = 9, .early_stopping = 2})
          .loss([&](const Tensors& batch) { return still.model(batch[0]).sum() * 0.0 + 1.0; })
          .fit(still.train, still.test);
  CHECK(early.end == train::End::kEarly);
  CHECK(early.epochs == 3);
  CHECK(early.best_epoch == 1);
}

TEST_CASE("trainer: a loss that is no number ends it with the last good weights saved") {
  const TemporaryFolder folder;
  Net net;
  int64_t batches = 0;
  train::Trainer trainer(net.model, *net.optimizer,
                         {.epochs = 2, .run_dir = folder.path() / "a", .log_every = 1});
  trainer.loss([&](const Tensors& batch) {
    const Tensor loss = net.model(batch[0]).square().mean();
    return ++batches < 4 ? loss : loss * std::nan("");
  });
  try {
    trainer.fit(net.train);
    FAIL("it ended well");
  } catch (const train::DivergedError& e) {
    CHECK(e.kind() == train::DivergedError::Kind::kLoss);
    CHECK(e.message() == "the train loss is nan in step 4 (epoch 1); " +
                             (folder.path() / "a" / "last.safetensors").string() +
                             " holds the weights of step 0");
  }
}

TEST_CASE("trainer: options out of range are refused by name") {
  Net net;
  const auto refused = [&](const train::TrainerOptions& options, const char* text) {
    CHECK_THROWS_WITH_AS(train::Trainer(net.model, *net.optimizer, options),
                         doctest::Contains(text), ValueError);
  };
  refused({.epochs = -1}, "epochs must not be negative, got -1");
  refused({.time_limit = -0.5}, "time_limit");
  refused({.ema = 1}, "ema");
  refused({.resume = "auto"}, "needs a run_dir");
  refused({.keep = 0}, "keep");
  refused({.log_every = 0}, "log_every");
  nn::Sequential empty;
  CHECK_THROWS_WITH_AS(train::Trainer(empty, *net.optimizer),
                       doctest::Contains("the model has no parameters"), ValueError);
  train::Trainer wrong(net.model, *net.optimizer, {.monitor = "iou"});
  CHECK_THROWS_WITH_AS(wrong.fit(net.train), doctest::Contains("monitor is \"iou\""), ValueError);
}
