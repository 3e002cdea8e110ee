// Reads JSON text from left to right without building anything: for formats that accept one shape
// of JSON and nothing else (safetensors). It keeps a position and no memory but that of texts with
// escapes. Internal.   ref: RFC 8259.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace lathe {

/// What a value is, by its first character.
enum class JsonKind { kObject, kArray, kString, kUnsigned, kNegative, kFraction, kBoolean, kNull };

class JsonCursor {
 public:
  /// `what` stands before messages: "x.safetensors: the header".
  JsonCursor(std::string_view text, std::string what) : text_(text), what_(std::move(what)) {}

  /// Of the value that comes next; it is not read.   throws: DataError if there is none.
  JsonKind kind();

  /// Reads the character if it comes next, after blanks.
  bool take(char c);
  /// Must come next.   throws: DataError.
  void expect(char c);
  /// Reads a string. The view is into the text, or, if it has escapes, into `unescaped`.
  /// throws: DataError for what is no JSON string in UTF-8.
  std::string_view string(std::string& unescaped);
  /// Reads a number of kind kUnsigned.   throws: DataError above 2^64 - 1, too.
  uint64_t number();
  /// throws: DataError unless nothing but blanks is left.
  void expect_end();

 private:
  [[noreturn]] void fail() const;
  void skip_blanks();
  size_t number_end() const;
  uint32_t hex4(size_t at) const;
  void append_escape(std::string& out);

  std::string_view text_;
  std::string what_;
  size_t at_ = 0;
};

}  // namespace lathe
