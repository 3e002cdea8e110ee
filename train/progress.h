// Progress of training and evaluation: one line that is redrawn on a terminal, and otherwise a line
// every ten seconds. The texts are pure functions of the state that they show.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "lathe/core/config.h"
#include "lathe/core/function_ref.h"
#include "lathe/train/observer.h"

namespace lathe::train {

/// Makes an observer that shows the progress of a training on stderr: one line that is redrawn on a
/// terminal, and otherwise a line every ten seconds. It also prints a line after each epoch, and
/// end_text().
LATHE_API std::shared_ptr<Observer> progress_bar();

/// A duration as text: "0:07", "12:34", "1:02:03"; "?" if unknown.
LATHE_API std::string duration_text(double seconds);
/// A rate as text: "986", "12.3k".
LATHE_API std::string rate_text(double samples_per_second);

/// One line of at most `width` - 3 columns, so that a ^C shown by the terminal fits behind the
/// line. The bar keeps its length as long as the numbers have their usual lengths. If the line is
/// too long, parts are left out in this order: the wait for data, learning rate and loss scale, the
/// bar, the samples per second.
LATHE_API std::string bar_text(const ProgressState& state, int width, bool colour,
                               const std::string& unit = "samples");
/// Like bar_text(), as a line without a bar, for logs.
LATHE_API std::string plain_text(const ProgressState& state, const std::string& unit = "samples");

/// The width of epoch_text() without a terminal.
inline constexpr size_t kEpochColumns = 80;

/// One line about an epoch. If it would be longer than `columns`, parts are left out in this order:
/// the learning rate, the word "saved", the time.
LATHE_API std::string epoch_text(const EpochReport& report, size_t columns = kEpochColumns);

/// One line about the end of a training, for Observer::on_end(). It says that a resumed run had no
/// step left, that the time limit or early stopping ended the run, or where a run that stopped can
/// go on. "" if all epochs or steps were trained.
LATHE_API std::string end_text(const Trainer& trainer, const FitResult& result);

enum class ProgressMode { kBar, kPlain, kNone };

/// The mode for a setting. "auto" gives a bar if stderr is a terminal and TERM is not "dumb", and
/// otherwise lines.
LATHE_API ProgressMode progress_mode(std::string_view setting, bool is_terminal, const char* term);
/// True on a terminal, unless NO_COLOR is set to any value.
LATHE_API bool wants_colour(bool is_terminal, const char* no_color);

/// A line on stderr that shows progress. As a bar, it is redrawn at most ten times a second. In
/// plain lines, a new line comes every ten seconds.
class LATHE_API StatusLine {
 public:
  StatusLine(std::string_view setting, bool quiet);
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// True if it is time for the next line; then call show().
  bool is_due() const { return mode_ != ProgressMode::kNone && Clock::now() >= next_; }
  /// Draws text(width, colour). For width 0, text() must return a plain line.
  void show(FunctionRef<std::string(int, bool)> text);
  /// Removes the line from the terminal.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  ProgressMode mode_;
  bool colour_;
  bool drawn_ = false;
  Clock::time_point next_;
};

/// The status line of training and evaluation.
class LATHE_API Progress {
 public:
  /// `unit`: what a sample is called in "986 img/s".
  Progress(std::string_view setting, bool quiet, std::string unit = "samples")
      : line_(setting, quiet), unit_(std::move(unit)) {}

  /// True if it is time for the next line; then call show().
  bool is_due() const { return line_.is_due(); }
  void show(const ProgressState& state);
  void clear() { line_.clear(); }

 private:
  StatusLine line_;
  std::string unit_;
};

}  // namespace lathe::train
