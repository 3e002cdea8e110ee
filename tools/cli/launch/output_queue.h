// OutputQueue: text on its way to stdout or stderr.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace lathe::cli {

/// Nothing here waits for who reads the other end, so a reader that has stopped (a pager) stops
/// neither the ranks' signals nor their deadlines.
class OutputQueue {
 public:
  /// `name`: how an error names it. "": it is no error if it cannot be written.
  OutputQueue(int descriptor, std::string name) : descriptor_(descriptor), name_(std::move(name)) {}

  /// Writes what the descriptor takes at once and keeps the rest. Takes nothing after an error.
  void add(std::string_view text);
  /// Writes what the descriptor takes now.
  void write();
  /// Drops the rest, and takes no more.
  void close();

  int descriptor() const { return descriptor_; }
  bool waits() const { return written_ < text_.size(); }
  /// True where so much waits that nothing should be added: the ranks then wait, too.
  bool is_full() const { return text_.size() - written_ >= kMost; }
  /// "stdout: closed"; "" as long as it can be written.
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
