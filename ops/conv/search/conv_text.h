// Reads the exact texts of keys, engines and outcomes: what append_text wrote, and nothing else.
// For conv_*.cpp files only.
#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "lathe/core/error.h"

namespace lathe {

/// Reads a text from left to right. Functions throw a DataError naming what the text is (`what`)
/// and the byte where it is not as expected.
class WordReader {
 public:
  WordReader(const char* what, std::string_view text) : what_(what), text_(text) {}

  bool done() const { return at_ == text_.size(); }

  /// Takes `word` if it comes next.
  bool skip(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }
  void expect(std::string_view word) {
    if (!skip(word)) fail_here(concat("\"", word, "\""));
  }
  int64_t number() {
    int64_t value = 0;
    const char* begin = text_.data() + at_;
    const auto [end, error] = std::from_chars(begin, text_.data() + text_.size(), value);
    if (error != std::errc()) fail_here("a number");
    at_ += static_cast<size_t>(end - begin);
    return value;
  }

  /// Everything up to the first of `ends`, or the end of the text.
  std::string_view until(std::string_view ends) {
    const size_t end = std::min(text_.find_first_of(ends, at_), text_.size());
    const std::string_view word = text_.substr(at_, end - at_);
    at_ = end;
    return word;
  }

  /// The next word, as an enumerator: its position in `words`.
  template <class Enum>
  Enum one_of(std::span<const std::string_view> words, std::string_view ends) {
    const size_t begin = at_;
    const std::string_view word = until(ends);
    for (size_t i = 0; i < words.size(); ++i) {
      if (words[i] == word) return static_cast<Enum>(i);
    }
    at_ = begin;
    fail_here(concat("one of the words that begin with \"", words[0], "\""));
  }

  [[noreturn]] void fail_here(std::string_view wanted) const {
    LATHE_FAIL(DataError, what_, ": expected ", wanted, " at byte ", at_, " of \"", text_, "\"");
  }

 private:
  const char* what_;
  std::string_view text_;
  size_t at_ = 0;
};

}  // namespace lathe
