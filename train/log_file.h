// LogFile: log.txt of a run folder.
#pragma once

#include <filesystem>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include "lathe/core/config.h"
#include "lathe/train/observer.h"

namespace lathe::train {

/// An observer that writes what the trainer says, and a line for each epoch, to log.txt in the run
/// folder. Does nothing without a run folder.
LATHE_API std::shared_ptr<Observer> log_file();

/// Lines with the time before them. A log that cannot be written ends no training: what could not
/// be written is tried again with the next line. Any thread may add lines.
class LATHE_API LogFile {
 public:
  LogFile() = default;
  ~LogFile();
  LogFile(const LogFile&) = delete;
  LogFile& operator=(const LogFile&) = delete;

  /// From now on lines go to this file, beginning with those added so far. Removes an incomplete
  /// last line that a kill left there.
  /// throws: FileError.
  void open(const std::filesystem::path& path);
  /// `text` is one line. Before open() the first mebibyte of lines waits.
  void add(std::string_view text);

 private:
  void write_what_waits();

  std::mutex mutex_;
  int file_ = -1;
  std::string waiting_;  // text that the file has not taken yet
};

}  // namespace lathe::train
