// JsonCursor: reads JSON text from left to right without building anything, for formats that accept
// only one structure of JSON (safetensors). It keeps a position, and allocates only for strings
// with escapes. Internal.
// ref: RFC 8259.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace lathe {

/// The kind of a value, which its first characters tell.
enum class JsonKind { kObject, kArray, kString, kUnsigned, kNegative, kFraction, kBoolean, kNull };

class JsonCursor {
 public:
  /// `what` begins messages: "x.safetensors: the header".
  JsonCursor(std::string_view text, std::string what) : text_(text), what_(std::move(what)) {}

  /// The kind of the next value, which is not read.
  /// throws: DataError if there is none.
  JsonKind kind();

  /// Reads the character and returns true if it comes next, after blanks.
  bool take(char c);
  /// Reads the character.
  /// throws: DataError if it does not come next.
  void expect(char c);
  /// Reads a string. The view is into the text or, if the string has escapes, into `unescaped`.
  /// throws: DataError if it is not a JSON string in UTF-8.
  std::string_view string(std::string& unescaped);
  /// Reads a number of kind kUnsigned.
  /// throws: DataError, also above 2^64 - 1.
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
