// What the command prints: results on stdout, everything else on stderr and in the run's log file.
#pragma once

#include <cstdio>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/train/log_file.h"
#include "lathe/train/row.h"

namespace lathe::cli {

using train::Row;

/// Call this first in main.
///   - Opens descriptors 0 to 2 if they are closed, so that no file opened later gets one of these
///     descriptors. Writing to a closed stdout still fails.
///   - Ignores SIGPIPE and SIGXFSZ. A write to a pipe without a reader, or beyond the limit on file
///     sizes, is then an ordinary error.
void prepare_standard_streams();

/// Writes all of `text` to a descriptor.
/// throws: CommandError (kError) naming `what` and the cause.
void write_all(int descriptor, std::string_view text, std::string_view what);

/// Prints results to stdout. If stdout cannot be written (closed, a full disk), the call throws
/// CommandError (kError). A training then saves and ends.
class Output {
 public:
  /// `json`: prints rows only and leaves texts out. `silent`: prints nothing.
  explicit Output(bool json, bool silent = false) : json_(json), silent_(silent) {}

  bool json() const { return json_; }
  /// Prints one or more lines for people; nothing with --json. Terminal control characters are
  /// escaped (core/printable.h). A name that may contain a line break must go through printable()
  /// first. On a terminal, lines that are too long are broken between words (wrapped_rows).
  void text(std::string_view lines) const;
  /// Like text(), but never breaks lines. For text that a user may copy, such as a config file.
  void verbatim(std::string_view lines) const;
  /// Like text(), but indents all lines except the first by two columns.
  void sentence(std::string_view line) const;
  /// Prints a line for programs; only with --json.
  void row(const Row& row) const;

 private:
  bool json_, silent_;
};

/// Writes messages, each in a line, to stderr and, with the time, to a log file. With --quiet only
/// errors go to stderr, but all messages still go to the file. Terminal control characters are
/// escaped.
class Log {
 public:
  explicit Log(bool quiet) : quiet_(quiet) {}
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Writes the messages so far, and all later ones, to the log file `path`, too. First removes an
  /// incomplete last line of the file, which a killed process may have left.
  /// throws: FileError.
  void open(const std::filesystem::path& path) { file_.open(path); }
  void line(std::string_view text);
  void warning(std::string_view text);
  /// Adds a line that says what the command chose for the user. The next line(), or say_choices(),
  /// prints it first. If the command fails before that, only the error is printed.
  void choice(std::string_view text);
  void say_choices();
  /// Writes the error of a command that fails.
  void error(std::string_view text);
  /// Called before each line, to take a progress bar off the terminal.
  void before_line(std::function<void()> hook) { before_line_ = std::move(hook); }

 private:
  void say(const std::string& text, bool on_stderr);

  bool quiet_;
  std::mutex mutex_;  // for choices_: lines come from any thread
  std::vector<std::string> choices_;
  train::LogFile file_;
  std::function<void()> before_line_;
};

}  // namespace lathe::cli
