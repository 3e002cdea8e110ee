// train_seeds().
#include "lathe/tools/cli/commands/train_seeds.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/text/formatted.h"
#include "lathe/train/metrics_row.h"
#include "lathe/train/progress.h"
#include "lathe/train/row.h"
#include "lathe/train/trainer.h"

namespace lathe::cli {
namespace {

// What one training reached.
class NoteResult : public train::Observer {
 public:
  void on_end(train::Trainer& trainer, const train::FitResult& result) override {
    result_ = result;
    whole_ = trainer.begin_step() == 0;
  }
  const train::FitResult& result() const { return result_; }
  /// This process made all of its steps.
  bool is_whole() const { return whole_; }

 private:
  train::FitResult result_;
  bool whole_ = false;
};

struct Mean {
  double value = 0, error = 0;  // standard error: s / sqrt(n)
};

Mean mean_of(std::span<const double> values) {
  Mean out;
  const auto n = static_cast<double>(values.size());
  for (const double v : values) out.value += v / n;
  double squares = 0;
  for (const double v : values) squares += (v - out.value) * (v - out.value);
  out.error = std::sqrt(squares / (n - 1) / n);
  return out;
}

double accuracy_of(const train::FitResult& result) {
  return train::value_of(result.tested ? result.test_metrics : result.metrics, "accuracy");
}

}  // namespace

ExitCode train_seeds(
    const Invocation& call, const Output& out,
    FunctionRef<ExitCode(const Invocation&, std::shared_ptr<train::Observer>)> train) {
  const Settings& settings = call.settings;
  if (settings.run_dir.empty())
    throw UsageError(formatted("--seeds {} needs --run-dir, in which each training has a folder",
                               settings.seeds));
  if (!settings.resume.empty() && settings.resume != "auto")
    throw UsageError(
        formatted("--seeds {}: --resume {} is one training; --resume auto continues "
                  "those that have not ended",
                  settings.seeds, settings.resume));
  std::vector<double> accuracies, seconds;
  for (int64_t i = 0; i < settings.seeds; ++i) {
    Invocation one = call;
    one.settings.seeds = 1;
    one.settings.seed += i;
    const auto name = formatted("seed-{}", one.settings.seed);
    one.settings.run_dir = (std::filesystem::path(settings.run_dir) / name).string();
    // --resume puts what was given on top of what the run so far says.
    one.sources.flags["seed"] = std::to_string(one.settings.seed);
    one.sources.flags["run-dir"] = one.settings.run_dir;
    const auto note = std::make_shared<NoteResult>();
    if (const ExitCode end = train(one, note); end != ExitCode::kDone) return end;
    if (!note->result().evaluated) return ExitCode::kDone;  // --dry-run, or a pause
    accuracies.push_back(accuracy_of(note->result()));
    if (note->is_whole()) seconds.push_back(note->result().seconds);
  }
  const Mean accuracy = mean_of(accuracies);
  const auto [least, most] = std::ranges::minmax(accuracies);
  const double mean_seconds = seconds.empty() ? std::nan("") : mean_of(seconds).value;
  out.row(Row()
              .add("event", "seeds")
              .add("seeds", settings.seeds)
              .add("accuracy", accuracy.value)
              .add("accuracy_error", accuracy.error)
              .add("seconds", mean_seconds)
              .add("run_dir", settings.run_dir));
  const std::string each =
      seconds.empty() ? "" : formatted(", {} a training", train::duration_text(mean_seconds));
  out.sentence(
      formatted("{} seeds: accuracy {:.2f} %, standard error {:.2f} ({:.2f} to {:.2f} %){}: {}",
                settings.seeds, 100 * accuracy.value, 100 * accuracy.error, 100 * least, 100 * most,
                each, settings.run_dir));
  return ExitCode::kDone;
}

}  // namespace lathe::cli
