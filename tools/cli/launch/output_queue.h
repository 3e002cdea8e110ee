// OutputQueue: text on its way to stdout or stderr.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lathe::cli {

/// Writes text to a descriptor without blocking. So a reader that has stopped (a pager) delays
/// neither the ranks' signals nor their deadlines.
class OutputQueue {
 public:
  /// `name` is the stream's name in errors. With "" a failed write is not an error.
  OutputQueue(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}

  /// Writes the part of `text` that the descriptor accepts without waiting, and queues the rest.
  /// After an error, drops the text.
  void add(std::string_view text);
  /// Writes as much of the queued text as the descriptor accepts now.
  void write();
  /// Drops the queued text and all later text.
  void close();

  int descriptor() const { return descriptor_; }
  bool waits() const { return written_ < text_.size(); }
  /// True if the queue is too long for more text. The caller then does not read the ranks' output,
  /// so the ranks wait.
  bool is_full() const { return text_.size() - written_ >= kMost; }
  /// "stdout: closed"; "" as long as the descriptor can be written.
  const std::string& problem() const { return problem_; }

 private:
  static constexpr size_t kMost = 1 << 20;

  int descriptor_;
  std::string name_, problem_;
  std::string text_;
  size_t written_ = 0;  // of text_
  bool closed_ = false;
};

}  // namespace lathe::cli
