// What a training shows.
#include "lathe/tools/cli/training/screen.h"

#include <unistd.h>

#include <algorithm>

#include "lathe/core/text/count_text.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/terminal.h"
#include "lathe/nn/summary.h"
#include "lathe/tools/cli/shell_word.h"
#include "lathe/tools/cli/signals.h"
#include "lathe/train/trainer.h"

namespace lathe::cli {

using train::Row;

using train::End;

namespace {

// What to say of a run that has no step left to make when it is resumed.
std::string complete_text(const train::Trainer& trainer, End end) {
  const std::string folder = shell_word(trainer.folder().string());
  const char* const limit = end == End::kEarly   ? "--early-stopping"
                            : end == End::kSteps ? "--max-steps"
                                                 : "--epochs";
  return formatted(
      "this run is complete: {} of {} epochs, best accuracy {:.2f} %. `lathe report {}` makes its "
      "report; `lathe train --resume {} {} N` with a larger N trains longer; another --run-dir "
      "begins a new run",
      trainer.epoch(), trainer.options().epochs, 100 * trainer.best(), folder, folder, limit);
}

}  // namespace

Screen::Screen(const Settings& settings, const Output& out, Log& log, BrokenFiles& broken,
               const Ranks& ranks)
    : settings_(settings),
      out_(out),
      log_(log),
      broken_(broken),
      ranks_(ranks),
      progress_(settings.progress, settings.quiet, "img") {
  log_.before_line([this] { progress_.clear(); });
}

void Screen::on_start(train::Trainer& trainer) {
  out_.row(Row()
               .add("event", "start")
               .add("run_dir", trainer.folder().string())
               .add("device", concat(trainer.device()))
               .add("parameters", nn::count_parameters(trainer.model()))
               .add("steps", trainer.total_steps()));
}

void Screen::on_step(train::Trainer& trainer) {
  if (progress_.is_due()) progress_.show(trainer.progress());
}

void Screen::on_log(train::Trainer&, const train::MetricsRow& row) { out_.row(to_row(row)); }

void Screen::on_evaluation_batch(train::Trainer&, const train::ProgressState& state) {
  progress_.show(state);
}

void Screen::on_evaluation(train::Trainer&, const train::MetricsRow& row) {
  progress_.clear();
  out_.row(to_row(row));
}

void Screen::on_epoch(train::Trainer&, const train::EpochReport& report) {
  if (settings_.quiet) return;
  progress_.clear();
  const int width = terminal_width(STDOUT_FILENO);
  out_.sentence(epoch_text(report, width > 0
                                       ? std::min(static_cast<size_t>(width), train::kEpochColumns)
                                       : train::kEpochColumns));
}

// Broken files are reported first: a run that continues from here does not meet them again.
void Screen::on_save(train::Trainer&, std::string_view) {
  if (settings_.skip_broken) broken_.report();
}

void Screen::on_trained(train::Trainer& trainer, End end) {
  if (end == End::kTime) log_.line("the time limit is reached");
  if (end != End::kTime && trainer.step() > 0 && trainer.step() == trainer.begin_step())
    log_.line(complete_text(trainer, end));
  if (end == End::kEarly) {
    log_.line(formatted("stopped early: no evaluation since epoch {} was better than {:.2f} %",
                        trainer.best_epoch(), 100 * trainer.best()));
  }
}

void Screen::on_end(train::Trainer& trainer, const train::FitResult& result) {
  progress_.clear();
  if (result.end == End::kSignal || result.end == End::kPause) return say_stopped(trainer, result);
  if (settings_.skip_broken) {
    broken_.report();
    broken_.join(ranks_);
  }
  print_result(trainer, result);
}

void Screen::on_message(train::Trainer&, train::MessageKind kind, std::string_view text) {
  progress_.clear();
  switch (kind) {
    case train::MessageKind::kNote: return log_.line(text);
    case train::MessageKind::kWarning: return log_.warning(text);
    case train::MessageKind::kError: return log_.error(text);
  }
}

void Screen::say_stopped(const train::Trainer& trainer, const train::FitResult& result) {
  const std::string by = result.signal != 0 ? name_of_signal(result.signal) : "--stop-after";
  const std::string call =
      formatted("lathe train --resume {}", shell_word(trainer.folder().string()));
  const std::string text =
      formatted("stopped after step {} by {}; {} holds the checkpoint, from which {} continues",
                result.steps, by, (trainer.folder() / "last.safetensors").string(),
                ranks_.alone() ? call : formatted("{} on {} ranks", call, ranks_.size()));
  if (result.signal != 0) {
    if (ranks_.is_first()) log_.error(text);
    return;
  }
  log_.line(text);
  out_.row(Row()
               .add("event", "stopped")
               .add("steps", result.steps)
               .add("data_wait", result.data_wait)
               .add("save_wait", result.save_wait)
               .add("run_dir", trainer.folder().string()));
}

void Screen::print_result(const train::Trainer& trainer, const train::FitResult& result) {
  const double accuracy = result.evaluated ? train::value_of(result.metrics, "accuracy") : 0;
  const double tested = result.tested ? train::value_of(result.test_metrics, "accuracy") : 0;
  Row done;
  done.add("event", "done")
      .add("epochs", result.epochs)
      .add("steps", result.steps)
      .add("loss", result.loss)
      .add("accuracy", accuracy)
      .add("best_accuracy", result.best)
      .add("best_epoch", result.best_epoch)
      .add("seconds", result.seconds)
      .add("data_wait", result.data_wait)
      .add("save_wait", result.save_wait)
      .add("memory_peak_bytes", result.memory_peak)
      .add("run_dir", trainer.folder().string());
  if (result.tested) {
    done.add("test_loss", result.test_loss);
    done.add("test_accuracy", tested);
  }
  if (settings_.skip_broken) done.add("broken_files", broken_.count());
  out_.row(done);
  out_.sentence(formatted(
      "{} accuracy {:.2f} %, best {:.2f} % (epoch {}){}, {} in {}, {:.1f} % of training "
      "waited for data{}: {}",
      result.tested ? "validation" : "test", 100 * accuracy, 100 * result.best, result.best_epoch,
      result.tested ? formatted(", of the best on the test images {:.2f} %", 100 * tested) : "",
      count_text(result.steps, "step"), train::duration_text(result.seconds),
      100 * result.data_wait,
      broken_.count() > 0 ? formatted(", {} skipped", count_text(broken_.count(), "broken file"))
                          : "",
      trainer.folder().string()));
}

}  // namespace lathe::cli
