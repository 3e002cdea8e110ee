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

/// Call this first in main. Opens descriptors 0 to 2 if they are closed, so that no file of ours
/// gets one of them; writing to a stdout that was closed still fails. Ignores SIGPIPE and SIGXFSZ,
/// so that a write to a pipe that nobody reads, or beyond the limit on file sizes, is an error like
/// any other.
void prepare_standard_streams();

/// Writes all of `text` to a descriptor.
/// throws: CommandError (kError) naming `what` and the cause.
void write_all(int descriptor, std::string_view text, std::string_view what);

/// Results. If stdout fails (closed, a full disk), CommandError (kError) is thrown at once;
/// training then saves and ends.
class Output {
 public:
  /// `json`: prints rows only and leaves texts out. `silent`: prints nothing.
  explicit Output(bool json, bool silent = false) : json_(json), silent_(silent) {}

  bool json() const { return json_; }
  /// One or more lines for people; not with --json. Terminal control characters in it are escaped
  /// (core/printable.h). A name that may contain a line break must go through printable() first.
  /// A terminal gets lines that are longer than it is wide broken between words (wrapped_rows).
  void text(std::string_view lines) const;
  /// The same for lines that may be copied from a terminal, as those of a config file: unbroken.
  void verbatim(std::string_view lines) const;
  /// A sentence: as text(), but lines that follow the first one are indented by two columns.
  void sentence(std::string_view line) const;
  /// A line for programs; only with --json.
  void row(const Row& row) const;

 private:
  bool json_, silent_;
};

/// Messages, a line each, on stderr and (with the time) in a log file. With --quiet only errors go
/// to stderr; the file gets all. Terminal control characters are escaped.
class Log {
 public:
  explicit Log(bool quiet) : quiet_(quiet) {}
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// From now on also writes to this file, beginning with the messages so far. Removes an
  /// incomplete last line that a kill left there.
  /// throws: FileError.
  void open(const std::filesystem::path& path) { file_.open(path); }
  void line(std::string_view text);
  void warning(std::string_view text);
  /// A line that tells what was chosen for the user. It waits for the next line() or
  /// say_choices(): a command that fails before, by what it was given, says that alone.
  void choice(std::string_view text);
  void say_choices();
  /// For a command that does not end as it was asked to.
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
