// What a Trainer does with loaders, observers, metrics and folders that are not as they should be.
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

/// A loader of pairs whose size() may not be true.
struct Claiming {
  std::vector<Pair> all;
  int64_t claimed;
  int64_t size() const { return claimed; }
  auto begin() const { return all.begin(); }
  auto end() const { return all.end(); }
};

/// A task without classes, on pairs.
struct Regression {
  nn::Sequential model;
  std::unique_ptr<optim::SGD> optimizer;

  Regression() {
    manual_seed(1);
    model.add<nn::Linear>(4, 4);
    optimizer = std::make_unique<optim::SGD>(model.parameters(), optim::SGDOptions{.lr = 0.05});
  }
  void set(train::Trainer& trainer) {
    trainer.loss<Pair>([this](const Pair& p) {
      const Tensor made = model(p.x);
      return train::Result{mse_loss(made, p.wanted), made, p.wanted};
    });
  }
};

train::Metric error_metric() {
  return train::mean("error",
                     [](const train::Result& r) { return abs(r.output - r.target).mean(); });
}

}  // namespace

TEST_CASE(
    "trainer: a loader that has other batches than its size() is an error, not an endless run") {
  const auto fit = [](int64_t train_size, int64_t validation_size) {
    Regression task;
    Claiming training{pairs(4), train_size}, validation{pairs(2), validation_size};
    train::Trainer trainer(task.model, *task.optimizer, {.epochs = 2});
    task.set(trainer);
    trainer.fit(training, validation);
  };
  CHECK_NOTHROW(fit(4, 2));
  CHECK_THROWS_WITH_AS(fit(6, 2), doctest::Contains("has 4 batches, but its size() says 6"),
                       DataError);
  CHECK_THROWS_WITH_AS(fit(3, 2), doctest::Contains("more than 3 batches"), DataError);
  CHECK_THROWS_WITH_AS(fit(4, 3), doctest::Contains("has 2 batches, but its size() says 3"),
                       DataError);
  CHECK_THROWS_WITH_AS(fit(0, 2), doctest::Contains("no batches to train on"), ValueError);
}

TEST_CASE("trainer: validation without batches is an error") {
  Regression task;
  std::vector<Pair> training = pairs(3), none;
  train::Trainer trainer(task.model, *task.optimizer);
  task.set(trainer);
  CHECK_THROWS_WITH_AS(trainer.fit(training, none), doctest::Contains("no batches to evaluate"),
                       ValueError);
  CHECK(trainer.progress().total == 0);  // the loaders are not looked at any more
}

TEST_CASE("trainer: a checkpoint without a run folder is a start, and nothing is written") {
  const TemporaryFolder folder;
  const fs::path run = folder.path() / "a";
  Net net, again;
  train::Trainer(net.model, *net.optimizer,
                 {.epochs = 2, .run_dir = run, .save_every = 2, .keep = 3})
      .fit(net.train, net.test);
  std::map<std::string, std::string> before;
  for (const std::string& name : names_in(run))
    before[name] = read_file((run / name).string(), INT64_MAX);
  const std::string from = (run / "step-10.safetensors").string();
  train::Trainer trainer(again.model, *again.optimizer, {.epochs = 2, .resume = from});
  CHECK(trainer.fit(again.train, again.test).steps == 12);
  CHECK(trainer.begin_step() == 10);
  CHECK(values_of(again.model.state_dict()) == values_of(net.model.state_dict()));
  CHECK(names_in(run).size() == before.size());
  for (const auto& [name, text] : before)
    CHECK(read_file((run / name).string(), INT64_MAX) == text);
}

TEST_CASE("trainer: an observer that throws anywhere costs no bit") {
  struct Throwing : train::Observer {
    std::string where;
    int64_t calls = 0, at = 0;
    void call(const char* name) {
      if (where == name && ++calls == at) throw std::runtime_error(where);
    }
    void on_start(train::Trainer&) override { call("start"); }
    void on_epoch_begin(train::Trainer&) override { call("epoch begin"); }
    bool wants_gradients() const override { return true; }
    void on_gradients(train::Trainer&) override { call("gradients"); }
    void on_step(train::Trainer&) override { call("step"); }
    void on_row(train::Trainer&, const train::MetricsRow&) override { call("row"); }
    void on_log(train::Trainer&, const train::MetricsRow&) override { call("log"); }
    void on_evaluation_batch(train::Trainer&, const train::ProgressState&) override {
      call("batch");
    }
    void on_evaluation(train::Trainer&, const train::MetricsRow&) override { call("evaluation"); }
    void on_epoch(train::Trainer&, const train::EpochReport&) override { call("epoch"); }
    void on_save(train::Trainer&, std::string_view name) override {
      call(name == "best" ? "save best" : "save");
    }
    void on_trained(train::Trainer&, train::End) override { call("trained"); }
    void on_end(train::Trainer&, const train::FitResult&) override { call("end"); }
  };
  const auto run = [](const fs::path& folder, const std::string& where, int64_t at) {
    Net net;
    optim::StepLR schedule(*net.optimizer, {.step_size = 4, .gamma = 0.5});
    train::Trainer trainer(net.model, *net.optimizer,
                           {.epochs = 2,
                            .accumulate = 2,
                            .ema = 0.9,
                            .schedule = &schedule,
                            .run_dir = folder,
                            .resume = "auto",
                            .log_every = 2});
    const auto throwing = std::make_shared<Throwing>();
    throwing->where = where;
    throwing->at = at;
    trainer.add(train::metrics_files()).add(throwing);
    try {
      trainer.fit(net.train, net.test);
      return false;
    } catch (const std::runtime_error&) {
      return true;
    }
  };
  const TemporaryFolder whole;
  run(whole.path() / "a", "", 0);
  const auto wanted = safetensors::read((whole.path() / "a" / "last.safetensors").string());
  for (const char* where : {"start", "epoch begin", "gradients", "step", "row", "log", "batch",
                            "evaluation", "epoch", "save", "save best", "trained", "end"}) {
    for (const int64_t at : {1, 2}) {
      CAPTURE(where);
      CAPTURE(at);
      const TemporaryFolder folder;
      run(folder.path() / "a", where, at);
      run(folder.path() / "a", "", 0);
      const auto got = safetensors::read((folder.path() / "a" / "last.safetensors").string());
      CHECK(values_of(got.tensors) == values_of(wanted.tensors));
      CHECK(is_there(folder.path() / "a" / "best.safetensors"));
    }
  }
}

TEST_CASE("trainer: a metric that is NaN is worse than any number") {
  Regression task;
  std::vector<Pair> training = pairs(3), validation = pairs(2);
  int64_t epoch = 0;
  train::Trainer trainer(task.model, *task.optimizer, {.epochs = 3});
  task.set(trainer);
  trainer.add(train::Metric(
      "score", [](const train::Result& r) { return r.loss; },
      [&](std::span<const double>) { return epoch < 2 ? std::nan("") : 0.5; }));
  struct Count : train::Observer {
    int64_t& epoch;
    explicit Count(int64_t& e) : epoch(e) {}
    void on_epoch_begin(train::Trainer& t) override { epoch = t.epoch(); }
  };
  const train::FitResult result =
      trainer.add(std::make_shared<Count>(epoch)).fit(training, validation);
  CHECK(result.best == 0.5);
  CHECK(result.best_epoch == 2);
}

TEST_CASE("trainer: metrics need names of their own") {
  for (const char* name : {"error", "loss", "step", "memory_peak_bytes"}) {
    CAPTURE(name);
    Regression task;
    std::vector<Pair> training = pairs(2);
    train::Trainer trainer(task.model, *task.optimizer);
    task.set(trainer);
    trainer.add(error_metric());
    trainer.add(train::mean(name, [](const train::Result& r) { return r.loss; }));
    CHECK_THROWS_WITH_AS(trainer.fit(training), doctest::Contains(name), ValueError);
  }
  Net net;
  train::Trainer own(net.model, *net.optimizer);
  own.add(train::mean("accuracy", [](const train::Result& r) { return r.loss; }));
  CHECK_THROWS_WITH_AS(own.fit(net.train), doctest::Contains("\"accuracy\" is taken"), ValueError);
}

TEST_CASE("trainer: what must not change from run to run is refused by name") {
  const TemporaryFolder folder;
  const auto run = [&](bool by_epoch, const char* monitor, int64_t epochs) {
    Net net;
    optim::StepLR schedule(*net.optimizer, {.step_size = 2});
    train::Trainer trainer(net.model, *net.optimizer,
                           {.epochs = epochs,
                            .schedule = &schedule,
                            .schedule_by_epoch = by_epoch,
                            .monitor = monitor,
                            .run_dir = folder.path() / "a",
                            .resume = "auto"});
    trainer.add(train::top_k(2)).fit(net.train, net.test);
  };
  run(true, "", 1);
  CHECK_THROWS_WITH_AS(run(false, "", 2),
                       doctest::Contains("once an epoch, but schedule_by_epoch is false"),
                       ValueError);
  CHECK_THROWS_WITH_AS(run(true, "top2", 2),
                       doctest::Contains("best checkpoint by accuracy, but monitor is \"top2\""),
                       ValueError);
  CHECK_NOTHROW(run(true, "", 2));
}

TEST_CASE("stop signals: there is one at a time, and it gives back what was there") {
  constexpr auto kOwn = [](int) {};
  void (*const own)(int) = kOwn;
  const auto before = std::signal(SIGINT, own);
  {
    const train::StopSignals signals;
    CHECK_THROWS_AS(train::StopSignals(), StateError);
    CHECK(train::StopSignals::asked() == 0);
    std::raise(SIGINT);
    CHECK(train::StopSignals::asked() == SIGINT);
  }
  CHECK(train::StopSignals::asked() == 0);
  CHECK((std::signal(SIGINT, before) == own));
}

TEST_CASE("evaluate: each module has its mode afterwards") {
  Net net;
  nn::BatchNorm1d* norm = nullptr;
  for (auto& [name, module] : net.model.named_modules())
    if (auto* found = dynamic_cast<nn::BatchNorm1d*>(module)) norm = found;
  REQUIRE(norm != nullptr);
  norm->eval();  // frozen
  train::Trainer trainer(net.model, *net.optimizer, {.epochs = 2});
  const auto before = values_of(norm->state_dict());
  trainer.fit(net.train, net.test);
  CHECK_FALSE(norm->is_training());
  CHECK(net.model.is_training());
  CHECK(values_of(norm->state_dict()).at("running_mean") == before.at("running_mean"));
}
