// Texts of the progress line, and StatusLine, which draws it.
#include "lathe/tools/cli/training/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "lathe/tools/cli/formatted.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/wrapping.h"

namespace lathe::cli {
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

std::string numbers(const ProgressState& s, Detail detail = Detail::kAll) {
  std::string text = formatted("{}/{}  loss {}  acc {:.1f} %", s.done, s.total, loss_text(s.loss),
                               100 * s.accuracy);
  if (detail < Detail::kNoRates) {
    if (s.lr >= 0) text += formatted("  lr {:.3g}", s.lr);
    if (s.loss_scale > 0)
      text += formatted("  scale {:g}  skipped {}", s.loss_scale, s.skipped_steps);
  }
  if (detail < Detail::kLeast) text += formatted("  {} img/s", rate_text(s.images_per_second));
  if (detail < Detail::kNoWait && s.data_wait >= 0.01)
    text += formatted("  waits for data {:.0f} %", 100 * s.data_wait);
  return text + formatted("  ETA {}", duration_text(s.eta_seconds));
}

// The length that the numbers usually grow to.
size_t usual_length(const ProgressState& s, Detail detail) {
  ProgressState longest = s;
  longest.done = s.total;
  longest.loss = 9.999;
  longest.accuracy = 0.999;
  if (s.lr >= 0) longest.lr = 0.0999;
  longest.images_per_second = std::max(s.images_per_second, 99'900.0);  // as 99.9k
  if (s.data_wait >= 0.01) longest.data_wait = 0.99;
  const double minutes = s.eta_seconds < 3600 ? 59 * 60 + 59 : 0;  // as 59:59
  longest.eta_seconds = std::max(std::isfinite(s.eta_seconds) ? s.eta_seconds : 0, minutes);
  return std::max(numbers(longest, detail).size(), numbers(s, detail).size());
}

}  // namespace

std::string duration_text(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0 || seconds > 1e7) return "?";
  const auto s = static_cast<int64_t>(std::lround(seconds));
  return s < 3600 ? formatted("{}:{:02}", s / 60, s % 60)
                  : formatted("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
}

std::string rate_text(double images_per_second) {
  return images_per_second < 9999.5 ? formatted("{:.0f}", images_per_second)
                                    : formatted("{:.1f}k", images_per_second / 1000);
}

std::string bar_text(const ProgressState& state, int width, bool colour) {
  const int most = width - kFreeColumns;
  for (const Detail detail : {Detail::kAll, Detail::kNoWait, Detail::kNoRates}) {
    const std::string after = numbers(state, detail);
    const size_t others = state.label.size() + usual_length(state, detail) + 4;  // " [" and "] "
    const int length = std::min(most - static_cast<int>(others), kLongestBar);
    if (length < kShortestBar) continue;
    const int full =
        state.total > 0 ? static_cast<int>(length * std::min(state.done, state.total) / state.total)
                        : 0;
    return formatted("{} [{}{:#>{}}{}{:->{}}] {}", state.label, colour ? "\033[32m" : "", "", full,
                     colour ? "\033[0m" : "", "", length - full, after);
  }
  for (const Detail detail : {Detail::kNoWait, Detail::kNoRates}) {
    std::string text = formatted("{} {}", state.label, numbers(state, detail));
    if (static_cast<int>(text.size()) <= most) return text;
  }
  return formatted("{} {}", state.label, numbers(state, Detail::kLeast))
      .substr(0, static_cast<size_t>(std::max(most, 0)));
}

std::string epoch_text(const EpochState& s, size_t columns) {
  std::string before = formatted("epoch {}/{}  train {} {:.1f} %", s.epoch, s.epochs,
                                 loss_text(s.train_loss), 100 * s.train_accuracy);
  if (s.evaluated)
    before += formatted("  val {} {:.1f} %", loss_text(s.val_loss), 100 * s.val_accuracy);
  const std::string rate = formatted("  lr {:.3g}", s.lr);
  const std::string time = formatted("  {}", duration_text(s.seconds));
  const std::string best = s.best_saved ? "  saved best" : "", least = s.best_saved ? "  best" : "";
  for (const std::string& after : {rate + time + best, time + best, time + least}) {
    if (before.size() + after.size() <= columns) return before + after;
  }
  return before + least;
}

std::string plain_text(const ProgressState& state) {
  return formatted("{} {}", state.label, numbers(state));
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
    return width > 0 ? bar_text(state, width, colour) : plain_text(state);
  });
}

}  // namespace lathe::cli
