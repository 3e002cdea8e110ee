// LogFile: log.txt of a run folder.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "lathe/core/config.h"
#include "lathe/train/observer.h"

namespace lathe::train {

/// Makes an observer that writes the trainer's messages, a line for each epoch and end_text()
/// (progress.h) to log.txt in the run folder. Does nothing without a run folder.
LATHE_API std::shared_ptr<Observer> log_file();

/// Writes lines, each preceded by the time. If writing fails, the training goes on, and the log
/// tries again together with the next line. Any thread may add lines.
class LATHE_API LogFile {
 public:
  LogFile() = default;
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  /// Writes the lines added so far, and all later lines, to the file `path`. First removes an
  /// incomplete last line of the file, which a killed process may have left.
  /// throws: FileError.
  void open(const std::filesystem::path& path);
  /// Adds one line to the log. Keeps lines that could not be written in memory, up to 1 MiB, and
  /// drops further lines. The file later says how many lines were dropped.
  void add(std::string_view text);

 private:
  void add_stamped(std::string_view text);
  void write_what_waits();

  std::mutex mutex_;
  int file_ = -1;
  std::string waiting_;  // text that the file has not taken yet
  int64_t dropped_ = 0;  // lines since the last one in waiting_
};

}  // namespace lathe::train
