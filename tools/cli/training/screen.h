// Screen: what a training shows: rows and sentences on stdout, messages and progress on stderr.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/training/broken_files.h"
#include "lathe/tools/cli/training/join_ranks.h"
#include "lathe/train/observer.h"
#include "lathe/train/progress.h"

namespace lathe::cli {

class Screen : public train::Observer {
 public:
  /// All arguments must outlive the Screen. `broken`: the files that --skip-broken skips.
  Screen(const Settings& settings, const Output& out, Log& log, BrokenFiles& broken,
         const Ranks& ranks);
  ~Screen() override { log_.before_line({}); }

  void on_start(train::Trainer& trainer) override;
  void on_step(train::Trainer& trainer) override;
  void on_log(train::Trainer& trainer, const train::MetricsRow& row) override;
  void on_evaluation_batch(train::Trainer& trainer, const train::ProgressState& state) override;
  void on_evaluation(train::Trainer& trainer, const train::MetricsRow& row) override;
  void on_epoch(train::Trainer& trainer, const train::EpochReport& report) override;
  void on_save(train::Trainer& trainer, std::string_view name) override;
  void on_trained(train::Trainer& trainer, train::End end) override;
  void on_end(train::Trainer& trainer, const train::FitResult& result) override;
  void on_message(train::Trainer& trainer, train::MessageKind kind, std::string_view text) override;

 private:
  void say_stopped(const train::Trainer& trainer, const train::FitResult& result);
  void print_result(const train::Trainer& trainer, const train::FitResult& result);

  const Settings& settings_;
  const Output& out_;
  Log& log_;
  BrokenFiles& broken_;
  const Ranks& ranks_;
  train::Progress progress_;
};

}  // namespace lathe::cli
