// Progress of training and evaluation: one line that is drawn again on a terminal, a line now and
// then elsewhere. The texts are pure functions of what is shown.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "lathe/core/function_ref.h"

namespace lathe::cli {

struct ProgressState {
  std::string label;            // "epoch 3/10", "val"
  int64_t done = 0, total = 0;  // steps of this pass
  double loss = 0, accuracy = 0;
  double lr = -1;         // negative: not shown
  double loss_scale = 0;  // 0: not shown
  int64_t skipped_steps = 0;
  double images_per_second = 0;
  double data_wait = 0;    // the part of the time that data was waited for; below 1 %: not shown
  double eta_seconds = 0;  // until the end of the run
};

/// "0:07", "12:34", "1:02:03"; "?" for what is not known.
std::string duration_text(double seconds);
/// "986", "12.3k".
std::string rate_text(double images_per_second);

/// One line of at most `width` columns; the bar takes what room the numbers leave. Where they leave
/// none, the wait for data goes first, then the bar.
std::string bar_text(const ProgressState& state, int width, bool colour);
/// The same without a bar, for a log.
std::string plain_text(const ProgressState& state);

enum class ProgressMode { kBar, kPlain, kNone };

/// "auto" is a bar where stderr is a terminal (and not TERM=dumb) and lines elsewhere.
ProgressMode progress_mode(std::string_view setting, bool is_terminal, const char* term);
/// Colour: on a terminal, unless NO_COLOR is set to anything.
bool wants_colour(bool is_terminal, const char* no_color);

/// A line on stderr that is drawn again: at most ten times a second as a bar, every ten seconds
/// as lines.
class StatusLine {
 public:
  StatusLine(std::string_view setting, bool quiet);
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Time for the next line? Then show it.
  bool is_due() const { return mode_ != ProgressMode::kNone && Clock::now() >= next_; }
  /// Draws text(width, colour); width 0 asks for a plain line.
  void show(FunctionRef<std::string(int, bool)> text);
  /// Takes the line off the terminal.
  void clear();

 private:
  using Clock = std::chrono::steady_clock;

  ProgressMode mode_;
  bool colour_;
  bool drawn_ = false;
  Clock::time_point next_;
};

/// The status line of training and evaluation.
class Progress {
 public:
  Progress(std::string_view setting, bool quiet) : line_(setting, quiet) {}

  void show(const ProgressState& state);
  void clear() { line_.clear(); }

 private:
  StatusLine line_;
};

}  // namespace lathe::cli
