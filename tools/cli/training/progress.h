// Progress of training and evaluation: on a terminal one line that is redrawn, elsewhere a line now
// and then. The texts are pure functions of what they show.
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
  double data_wait = 0;    // part of the time spent waiting for data; below 1 %: not shown
  double eta_seconds = 0;  // until the end of the run
};

/// "0:07", "12:34", "1:02:03"; "?" if unknown.
std::string duration_text(double seconds);
/// "986", "12.3k".
std::string rate_text(double images_per_second);

/// One line of at most `width` - 3 columns: a terminal that shows ^C after it does not begin
/// another. The bar takes the room that the numbers leave when they are as long as they usually
/// get, so that it keeps its length during an epoch. If there is too little room, this is left
/// out, in this order: the wait for data, learning rate and loss scale, the bar, the images per
/// second.
std::string bar_text(const ProgressState& state, int width, bool colour);
/// The same without a bar, for logs.
std::string plain_text(const ProgressState& state);

/// An epoch that has ended.
struct EpochState {
  int64_t epoch = 0, epochs = 0;
  double train_loss = 0, train_accuracy = 0;
  bool evaluated = false;  // false: the next two are not shown
  double val_loss = 0, val_accuracy = 0;
  double lr = 0;
  double seconds = 0;       // since the run began or was resumed
  bool best_saved = false;  // last.safetensors, which every epoch saves, is not mentioned
};

/// The columns that epoch_text() has where no terminal says.
inline constexpr size_t kEpochColumns = 80;

/// One line. If it would have more than `columns` otherwise, this is left out, in this order: the
/// learning rate, the word "saved", the time.
std::string epoch_text(const EpochState& state, size_t columns = kEpochColumns);

enum class ProgressMode { kBar, kPlain, kNone };

/// "auto" is a bar if stderr is a terminal (and TERM is not "dumb"), otherwise lines.
ProgressMode progress_mode(std::string_view setting, bool is_terminal, const char* term);
/// Colour: on a terminal, unless NO_COLOR is set to any value.
bool wants_colour(bool is_terminal, const char* no_color);

/// A line on stderr that is shown again and again: at most ten times a second as a bar, every ten
/// seconds as lines.
class StatusLine {
 public:
  StatusLine(std::string_view setting, bool quiet);
  ~StatusLine() { clear(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  /// Whether it is time for the next line; then call show().
  bool is_due() const { return mode_ != ProgressMode::kNone && Clock::now() >= next_; }
  /// Draws text(width, colour); width 0 asks for a plain line.
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
class Progress {
 public:
  Progress(std::string_view setting, bool quiet) : line_(setting, quiet) {}

  void show(const ProgressState& state);
  void clear() { line_.clear(); }

 private:
  StatusLine line_;
};

}  // namespace lathe::cli
