// Texts of the progress line, and StatusLine, which draws it.
#include "lathe/train/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "lathe/core/text/formatted.h"
#include "lathe/core/text/terminal.h"
#include "lathe/train/trainer.h"

namespace lathe::train {
namespace {

constexpr std::chrono::milliseconds kBarInterval{100}, kPlainInterval{10'000};
constexpr int kLongestBar = 30, kShortestBar = 5;
constexpr int kFreeColumns = 3;  // the last one, and two for ^C
constexpr int kUnknownWidth = 80;

// How much of the numbers a line has room for.
enum class Detail { kAll, kNoWait, kNoRates, kLeast };

std::string loss_text(double loss) {
  return std::abs(loss) < 1000 ? formatted("{:.3f}", loss)
                               : formatted("{:.3g}", without_sign_of_nan(loss));
}

std::string metric_text(const std::string& name, double value) {
  return name == "accuracy" ? formatted("acc {:.1f} %", 100 * value)
                            : formatted("{} {:.4g}", name, without_sign_of_nan(value));
}

std::string numbers(const ProgressState& s, const std::string& unit, Detail detail = Detail::kAll) {
  std::string text = formatted("{}{}  loss {}", s.done,
                               s.total > 0 ? formatted("/{}", s.total) : "", loss_text(s.loss));
  for (const auto& [name, value] : s.metrics) text += "  " + metric_text(name, value);
  if (detail < Detail::kNoRates) {
    if (s.lr >= 0) text += formatted("  lr {:.3g}", s.lr);
    if (s.loss_scale > 0)
      text += formatted("  scale {:g}  skipped {}", s.loss_scale, s.skipped_steps);
  }
  if (detail < Detail::kLeast)
    text += formatted("  {} {}/s", rate_text(s.samples_per_second), unit);
  if (detail < Detail::kNoWait && s.data_wait >= 0.01)
    text += formatted("  waits for data {:.0f} %", 100 * s.data_wait);
  return text + formatted("  ETA {}", duration_text(s.eta_seconds));
}

// The length that the numbers usually grow to.
size_t usual_length(const ProgressState& s, const std::string& unit, Detail detail) {
  ProgressState longest = s;
  longest.done = s.total;
  longest.loss = 9.999;
  for (auto& [name, value] : longest.metrics) {
    if (name == "accuracy") value = 0.999;
  }
  if (s.lr >= 0) longest.lr = 0.0999;
  longest.samples_per_second = std::max(s.samples_per_second, 99'900.0);  // as 99.9k
  if (s.data_wait >= 0.01) longest.data_wait = 0.99;
  const double minutes = s.eta_seconds < 3600 ? 59 * 60 + 59 : 0;  // as 59:59
  longest.eta_seconds = std::max(std::isfinite(s.eta_seconds) ? s.eta_seconds : 0, minutes);
  return std::max(numbers(longest, unit, detail).size(), numbers(s, unit, detail).size());
}

}  // namespace

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e7) return "?";
  const auto s = static_cast<int64_t>(std::lround(seconds));
  return s < 3600 ? formatted("{}:{:02}", s / 60, s % 60)
                  : formatted("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string rate_text(double samples_per_second) {
  return samples_per_second < 9999.5 ? formatted("{:.0f}", samples_per_second)
                                     : formatted("{:.1f}k", samples_per_second / 1000);
}

std::string bar_text(const ProgressState& state, int width, bool colour, const std::string& unit) {
  const int most = width - kFreeColumns;
  for (const Detail detail : {Detail::kAll, Detail::kNoWait, Detail::kNoRates}) {
    const std::string after = numbers(state, unit, detail);
    const size_t others =
        state.label.size() + usual_length(state, unit, detail) + 4;  // " [" and "] "
    const int length = std::min(most - static_cast<int>(others), kLongestBar);
    if (length < kShortestBar) continue;
    const int full =
        state.total > 0 ? static_cast<int>(length * std::min(state.done, state.total) / state.total)
                        : 0;
    return formatted("{} [{}{:#>{}}{}{:->{}}] {}", state.label, colour ? "\033[32m" : "", "", full,
                     colour ? "\033[0m" : "", "", length - full, after);
  }
  for (const Detail detail : {Detail::kNoWait, Detail::kNoRates}) {
    std::string text = formatted("{} {}", state.label, numbers(state, unit, detail));
    if (static_cast<int>(text.size()) <= most) return text;
  }
  return formatted("{} {}", state.label, numbers(state, unit, Detail::kLeast))
      .substr(0, static_cast<size_t>(std::max(most, 0)));
}

namespace {

// "2.302 10.1 %": accuracy without its name, which stands before every other metric.
std::string results_text(double loss, const Values& metrics) {
  std::string text = loss_text(loss);
  for (const auto& [name, value] : metrics)
    text += name == "accuracy" ? formatted(" {:.1f} %", 100 * value)
                               : formatted(" {}", metric_text(name, value));
  return text;
}

}  // namespace

std::string epoch_text(const EpochReport& s, size_t columns) {
  std::string before = formatted("epoch {}/{}  train {}", s.epoch, s.epochs,
                                 results_text(s.train_loss, s.train_metrics));
  if (s.evaluated) before += formatted("  val {}", results_text(s.val_loss, s.val_metrics));
  const std::string rate = formatted("  lr {:.3g}", s.lr);
  const std::string time = formatted("  {}", duration_text(s.seconds));
  const std::string best = s.best_saved ? "  saved best" : "", least = s.best_saved ? "  best" : "";
  for (const std::string& after : {rate + time + best, time + best, time + least}) {
    if (before.size() + after.size() <= columns) return before + after;
  }
  return before + least;
}

std::string end_text(const Trainer& trainer, const FitResult& result) {
  const std::string folder = trainer.folder().string();
  if (result.end == End::kSignal || result.end == End::kPause) {
    const std::string by = result.signal != 0 ? formatted(" by signal {}", result.signal) : "";
    const std::string last = (trainer.folder() / "last.safetensors").string();
    return formatted("stopped after step {}{}{}", result.steps, by,
                     folder.empty() ? "" : formatted("; resume from {}", last));
  }
  if (result.end == End::kTime)
    return formatted("the time limit is reached, after step {}", result.steps);
  if (result.steps > 0 && result.steps == trainer.begin_step()) {
    return formatted("nothing left to train: the run{} is finished, in epoch {} of {} at step {}",
                     folder.empty() ? "" : formatted(" in {}", folder), result.epochs,
                     trainer.options().epochs, result.steps);
  }
  if (result.end == End::kEarly)
    return formatted("stopped early: no evaluation since epoch {} was better", result.best_epoch);
  return "";
}

std::string plain_text(const ProgressState& state, const std::string& unit) {
  return formatted("{} {}", state.label, numbers(state, unit));
}

ProgressMode progress_mode(std::string_view setting, bool is_terminal, const char* term) {
  if (setting == "none") return ProgressMode::kNone;
  const bool dumb = term && std::string_view(term) == "dumb";
  return setting == "auto" && is_terminal && !dumb ? ProgressMode::kBar : ProgressMode::kPlain;
}

bool wants_colour(bool is_terminal, const char* no_color) {
  return is_terminal && (!no_color || !*no_color);
}

StatusLine::StatusLine(std::string_view setting, bool quiet)
    : mode_(quiet ? ProgressMode::kNone
                  : progress_mode(setting, isatty(STDERR_FILENO) == 1, std::getenv("TERM"))),
      colour_(wants_colour(isatty(STDERR_FILENO) == 1, std::getenv("NO_COLOR"))),
      next_(Clock::now() + (mode_ == ProgressMode::kPlain ? kPlainInterval : kBarInterval)) {}

void StatusLine::show(FunctionRef<std::string(int, bool)> text) {
  if (mode_ == ProgressMode::kBar) {
    const int width = terminal_width(STDERR_FILENO);
    write_stderr("\r\033[K" + text(width > 0 ? width : kUnknownWidth, colour_));
    drawn_ = true;
    next_ = Clock::now() + kBarInterval;
  } else {
    write_stderr_line(text(0, false));
    next_ = Clock::now() + kPlainInterval;
  }
}

void StatusLine::clear() {
  if (drawn_) write_stderr("\r\033[K");
  drawn_ = false;
}

void Progress::show(const ProgressState& state) {
  if (!line_.is_due()) return;
  line_.show([&](int width, bool colour) {
    return width > 0 ? bar_text(state, width, colour, unit_) : plain_text(state, unit_);
  });
}

namespace {

class ProgressBar : public Observer {
 public:
  void on_step(Trainer& trainer) override {
    if (trainer.is_first_rank() && bar_.is_due()) bar_.show(trainer.progress());
  }
  void on_evaluation_batch(Trainer& trainer, const ProgressState& state) override {
    if (trainer.is_first_rank()) bar_.show(state);
  }
  void on_evaluation(Trainer&, const MetricsRow&) override { bar_.clear(); }
  void on_epoch(Trainer& trainer, const EpochReport& report) override {
    bar_.clear();
    if (!trainer.is_first_rank()) return;
    const int width = terminal_width(STDERR_FILENO);
    const auto room = static_cast<size_t>(std::max(width, 0));
    write_stderr_line(epoch_text(report, room > 0 ? std::min(room, kEpochColumns) : kEpochColumns));
  }
  void on_message(Trainer& trainer, MessageKind kind, std::string_view text) override {
    bar_.clear();
    if (trainer.is_first_rank())
      write_stderr_line(formatted("{}{}", kind == MessageKind::kWarning ? "warning: " : "", text));
  }
  void on_end(Trainer& trainer, const FitResult& result) override {
    bar_.clear();
    const std::string text = end_text(trainer, result);
    if (trainer.is_first_rank() && !text.empty()) write_stderr_line(text);
  }

 private:
  Progress bar_{"auto", false};
};

}  // namespace

std::shared_ptr<Observer> progress_bar() { return std::make_shared<ProgressBar>(); }

}  // namespace lathe::train
