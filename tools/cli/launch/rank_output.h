// RankOutput: what a rank prints, passed on line by line and kept in a file.
#pragma once

#include <string>
#include <string_view>
#include <utility>

#include "lathe/tools/cli/launch/output_queue.h"

namespace lathe::cli {

/// Passes on one output stream (stdout or stderr) of a rank. Lines of several ranks do not mix: a
/// line is written as a whole, behind its rank's prefix. A line of more than 64 KiB is written in
/// parts.
class RankOutput {
 public:
  /// `log`: a descriptor that gets the bytes as they are; -1: there is no log. `to` must outlive
  /// the RankOutput.
  RankOutput(OutputQueue& to, std::string prefix, int log)
      : to_(to), prefix_(std::move(prefix)), log_(log) {}

  void add(std::string_view bytes);
  /// Call when the stream has ended, perhaps in the middle of a line.
  void end();

  /// True if so much output is queued that nothing should be added now.
  bool is_full() const { return to_.is_full(); }
  /// Why the rank's output or its log cannot be written any more; "" as long as both can be
  /// written. If one of the two fails, only the other one is still written.
  const std::string& problem() const { return log_problem_.empty() ? to_.problem() : log_problem_; }
  /// The last line that was not empty.
  const std::string& last_line() const { return last_line_; }

 private:
  void write_log(std::string_view bytes);
  void write_line(std::string_view line);

  OutputQueue& to_;
  std::string prefix_;
  int log_;
  std::string begun_, last_line_, log_problem_;
};

}  // namespace lathe::cli
