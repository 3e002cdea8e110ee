// What the command prints: results on stdout, everything else on stderr and in the run's log file.
#pragma once

#include <cstdio>
#include <filesystem>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>

#include "lathe/tools/cli/row.h"

namespace lathe::cli {

/// Makes sure that descriptors 0 to 2 are open, so that no file of ours gets one of them: writing
/// to a stdout that was closed keeps failing. Ignores SIGPIPE and SIGXFSZ, so that a write to a
/// pipe that nobody reads, or over the limit on file sizes, is an error like any other. The first
/// thing main does.
void prepare_standard_streams();

/// Writes all of `text` to a descriptor.
/// throws: CommandError (kError) naming `what` and the cause.
void write_all(int descriptor, std::string_view text, std::string_view what);

/// Opens a regular file to append lines to; makes it where there is none.
/// throws: FileError.
int open_to_append(const std::string& path);
/// Leaves the first `lines` complete lines of such a file, or all if there are fewer.   → how many
/// throws: FileError.
int64_t cut_lines(int descriptor, const std::string& path, int64_t lines);

/// Writes to stderr; that nobody reads it is no error.
void write_stderr(std::string_view text) noexcept;

/// Results. A stdout that does not take them (closed, a full disk) throws CommandError (kError) at
/// once, and training then saves and ends.
class Output {
 public:
  /// `json`: rows only, texts are left out.
  explicit Output(bool json) : json_(json) {}

  bool json() const { return json_; }
  /// A line for people, or several; not with --json. What in it would command a terminal is spelled
  /// out (core/printable.h); a name that may hold a line end wants printable() itself.
  void text(std::string_view line) const;
  /// A line for programs; only with --json.
  void row(const Row& row) const;

 private:
  bool json_;
};

/// Remarks: a line each, on stderr and (with the time) in a log file. With --quiet only errors are
/// on stderr; the file gets them all. What would command a terminal is spelled out.
class Log {
 public:
  explicit Log(bool quiet) : quiet_(quiet) {}
  ~Log();
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  /// Writes to this file too, from now on, and what was said before. A line that a kill cut short
  /// there is removed.
  /// throws: FileError.
  void open(const std::filesystem::path& path);
  void line(std::string_view text);
  void warning(std::string_view text);
  /// Of a command that does not end as it was asked to.
  void error(std::string_view text);
  /// Called before each line: takes a progress bar off the terminal.
  void before_line(std::function<void()> hook) { before_line_ = std::move(hook); }

 private:
  void say(const std::string& text, bool on_stderr);
  void write_file(std::string_view text);
  void write_what_waits();

  bool quiet_;
  std::mutex mutex_;  // of the file: warnings come from any thread
  int file_ = -1;
  std::string waiting_;  // for the file to be opened, or to take it
  std::function<void()> before_line_;
};

}  // namespace lathe::cli
