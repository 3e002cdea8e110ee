// RankOutput: what a rank prints, passed on line by line and kept in a file.
#pragma once

#include <string>
#include <string_view>

namespace lathe::cli {

/// One of a rank's two streams. Lines of several ranks do not mix: a line is written as a whole,
/// behind its rank's prefix. A line of more than 64 KiB is written in parts.
class RankOutput {
 public:
  enum class To { kStdout, kStderr };

  /// `log`: a descriptor that gets the bytes as they are; -1: none.
  RankOutput(To to, std::string prefix, int log) : to_(to), prefix_(std::move(prefix)), log_(log) {}

  /// throws: CommandError (kError) if stdout or the log cannot be written.
  void add(std::string_view bytes);
  /// The stream has ended, perhaps in the middle of a line.
  void end();

  /// The last line that was not empty.
  const std::string& last_line() const { return last_line_; }

 private:
  void write_line(std::string_view line);

  To to_;
  std::string prefix_;
  int log_;
  std::string begun_, last_line_;
};

}  // namespace lathe::cli
