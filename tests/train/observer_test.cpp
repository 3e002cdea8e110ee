// What observers are told, against a list of what must happen: every function, in order.
#include "lathe/train/observer.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/ops/binary.h"  // small_training.h multiplies
#include "lathe/tests/cli/temporary_folder.h"
#include "lathe/tests/train/small_training.h"
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
