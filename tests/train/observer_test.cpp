// What observers are told, against a list of what must happen: every function, in order.
#include "lathe/train/observer.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/core/files/file.h"
#include "lathe/ops/binary.h"  // small_training.h multiplies
#include "lathe/tests/cli/temporary_folder.h"
#include "lathe/tests/train/small_training.h"
#include "lathe/train/log_file.h"
#include "lathe/train/progress.h"
#include "lathe/train/trainer.h"

using namespace lathe;
using lathe::test::Net;
using lathe::test::TemporaryFolder;

namespace {

/// Writes down every function that is called.
struct Ear : train::Observer {
  std::vector<std::string> heard;

  void note(const std::string& text) { heard.push_back(text); }
  static std::string name_of(const train::MetricsRow& row) {
    return row.split + " " + std::to_string(row.step);
  }

  void on_start(train::Trainer&) override { note("start"); }
  void on_epoch_begin(train::Trainer& t) override { note("begin " + std::to_string(t.epoch())); }
  std::shared_ptr<void> around_batches(train::Trainer&) override {
    note("around");
    return std::shared_ptr<void>(nullptr, [this](void*) { note("let go"); });
  }
  void on_batches_end(train::Trainer&) override { note("batches end"); }
  void on_gradients(train::Trainer&) override { note("gradients"); }
  bool wants_gradients() const override { return true; }
  void on_step(train::Trainer& t) override { note("step " + std::to_string(t.step())); }
  void on_row(train::Trainer&, const train::MetricsRow& r) override { note("row " + name_of(r)); }
  void on_log(train::Trainer&, const train::MetricsRow& r) override { note("log " + name_of(r)); }
  void on_evaluation_batch(train::Trainer&, const train::ProgressState& p) override {
    note("batch " + std::to_string(p.done));
  }
  void on_evaluation(train::Trainer&, const train::MetricsRow& r) override {
    note("evaluation " + name_of(r));
  }
  void on_epoch(train::Trainer&, const train::EpochReport& r) override {
    note("epoch " + std::to_string(r.epoch) + (r.best_saved ? " best" : ""));
  }
  void on_save(train::Trainer&, std::string_view name) override {
    note("save " + std::string(name));
  }
  void on_trained(train::Trainer&, train::End) override { note("trained"); }
  void on_end(train::Trainer&, const train::FitResult&) override { note("end"); }
  void on_message(train::Trainer&, train::MessageKind, std::string_view text) override {
    note("message " + std::string(text));
  }
};

std::string joined(const std::vector<std::string>& lines) {
  std::string all;
  for (const std::string& line : lines) all += line + '\n';
  return all;
}

/// What `run` writes to stderr, which is no terminal meanwhile.
std::string errors_of(const std::filesystem::path& file, const std::function<void()>& run) {
  const int to = open(file.c_str(), O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC, 0600);
  const int before = dup(STDERR_FILENO);
  REQUIRE(dup2(to, STDERR_FILENO) == STDERR_FILENO);
  run();
  dup2(before, STDERR_FILENO);
  close(before);
  close(to);
  return read_file(file.string(), INT64_MAX);
}

}  // namespace

TEST_CASE("observers: each function is called where the header says") {
  const TemporaryFolder folder;
  Net net;
  const auto ear = std::make_shared<Ear>();
  train::Trainer trainer(net.model, *net.optimizer,
                         {.epochs = 1, .run_dir = folder.path() / "a", .log_every = 4});
  trainer.add(ear).fit(net.train, net.test, net.test);
  // 22 samples are 6 batches of 4, and 10 are 3.
  const std::vector<std::string> evaluation = {"batch 1", "batch 2", "batch 3"};
  std::vector<std::string> expected = {
      "start",       "begin 1",     "around",      "step 1",     "step 2",
      "step 3",      "row train 4", "log train 4", "step 4",  // a row is due with a step, which is told after it
      "step 5",      "gradients",   "step 6",  // of the last update before the evaluation
      "batches end", "let go",      "row train 6", "log train 6"};
  expected.insert(expected.end(), evaluation.begin(), evaluation.end());
  for (const char* next :
       {"row val 6", "save best", "evaluation val 6", "save last", "epoch 1 best", "trained"})
    expected.emplace_back(next);
  expected.insert(expected.end(), evaluation.begin(), evaluation.end());
  for (const char* next : {"row test 6", "evaluation test 6", "end"}) expected.emplace_back(next);
  CHECK(joined(ear->heard) == joined(expected));
}

TEST_CASE("progress bar and log file: an end that no line of an epoch shows is told") {
  const TemporaryFolder folder;
  const std::filesystem::path run = folder.path() / "a";
  const auto fit = [&](train::TrainerOptions options) {
    Net net;
    options.run_dir = run;
    options.resume = "auto";
    return errors_of(folder.path() / "errors", [&] {
      train::Trainer trainer(net.model, *net.optimizer, std::move(options));
      trainer.add(train::progress_bar()).add(train::log_file()).fit(net.train, net.test);
    });
  };
  const auto lines_of = [](const std::string& text) {
    return std::count(text.begin(), text.end(), '\n');
  };
  const std::string usual = fit({.epochs = 2});
  CHECK(lines_of(usual) == 2);  // its epochs
  const std::string finished = "nothing left to train: the run in " + run.string() +
                               " is finished, in epoch 2 of 2 at step 12\n";
  CHECK(fit({.epochs = 2}) == finished);
  CHECK(read_file((run / "log.txt").string(), INT64_MAX).ends_with(' ' + finished));
  CHECK(fit({.epochs = 3, .pause_after = 14}) ==
        "stopped after step 14; resume from " + (run / "last.safetensors").string() + "\n");
  CHECK(fit({.epochs = 9, .time_limit = 1e-9})
            .ends_with("\nthe time limit is reached, after step 14\n"));
  CHECK(fit({.epochs = 3}).starts_with("epoch 3/3"));
}

TEST_CASE("progress bar: early stopping is told") {
  const TemporaryFolder folder;
  Net net;
  const std::string text = errors_of(folder.path() / "errors", [&] {
    train::Trainer trainer(net.model, *net.optimizer, {.epochs = 50, .early_stopping = 1});
    trainer.add(train::progress_bar()).fit(net.train, net.test);
  });
  CHECK(text.find("\nstopped early: no evaluation since epoch ") != std::string::npos);
}
