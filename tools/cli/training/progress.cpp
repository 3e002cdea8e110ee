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
constexpr size_t kEpochColumns = 80;
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
  const auto room_for = [&](const std::string& after) {
    // " [" "] " and the last column
    return width - static_cast<int>(state.label.size() + after.size()) - 5;
  };
  for (const Detail detail : {Detail::kAll, Detail::kNoWait, Detail::kNoRates}) {
    const std::string after = numbers(state, detail);
    const int length = std::min(room_for(after), kLongestBar);
    if (length < kShortestBar) continue;
    const int full =
        state.total > 0 ? static_cast<int>(length * std::min(state.done, state.total) / state.total)
                        : 0;
    return formatted("{} [{}{:#>{}}{}{:->{}}] {}", state.label, colour ? "\033[32m" : "", "", full,
                     colour ? "\033[0m" : "", "", length - full, after);
  }
  for (const Detail detail : {Detail::kNoWait, Detail::kNoRates}) {
    std::string text = formatted("{} {}", state.label, numbers(state, detail));
    if (static_cast<int>(text.size()) < width) return text;
  }
  return formatted("{} {}", state.label, numbers(state, Detail::kLeast))
      .substr(0, static_cast<size_t>(std::max(width - 1, 0)));
}

std::string epoch_text(const EpochState& s) {
  std::string before = formatted("epoch {}/{}  train {} {:.1f} %", s.epoch, s.epochs,
                                 loss_text(s.train_loss), 100 * s.train_accuracy);
  if (s.evaluated)
    before += formatted("  val {} {:.1f} %", loss_text(s.val_loss), 100 * s.val_accuracy);
  const std::string rate = formatted("  lr {:.3g}", s.lr);
  const std::string after =
      formatted("  {}{}", duration_text(s.seconds), s.best_saved ? "  saved best" : "");
  const bool fits = before.size() + rate.size() + after.size() <= kEpochColumns;
  return before + (fits ? rate : "") + after;
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
