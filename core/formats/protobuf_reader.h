// ProtobufReader: reads protobuf's wire format in place, for files of other programs (ONNX).
// protobuf_writer.h writes it. A message is bytes of a file; nothing is copied, and a message takes
// no memory until its owner keeps something of it.
// ref: https://protobuf.dev/programming-guides/encoding/
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

/// Goes through the fields of one message in their order:
///   while (reader.next()) {
///     if (reader.field() == 1) name = reader.text();
///   }
/// Fields that nobody asks for are skipped. A value is checked to be of the wire type that is asked
/// for.
/// throws, every function but the constructor: DataError that names the file, the byte and what is
/// wrong.
class ProtobufReader {
 public:
  /// The message that is a whole file; `name` stands for it in errors. Both must outlive the
  /// reader.
  ProtobufReader(std::string_view file, std::string_view name)
      : file_(file), name_(name), message_(file) {}

  /// Goes to the next field.   → false at the end of the message
  bool next();

  /// The number of the field.
  int field() const { return field_; }
  /// int64, int32, uint64, bool, enum.
  int64_t integer() const;
  /// float.
  float real() const;
  /// string, bytes. It lies in the file.
  std::string_view text() const;
  /// A message inside of this one.
  ProtobufReader message() const { return inside(text()); }
  /// The reader of a message of this file, from text() of some field.
  ProtobufReader inside(std::string_view message) const;

  /// Adds the values of a repeated field, packed or not.
  void append_to(std::vector<int64_t>& integers) const;
  void append_to(std::vector<float>& reals) const;
  void append_to(std::vector<double>& reals) const;

  /// The whole message.
  std::string_view bytes() const { return message_; }
  /// Where the message begins in the file.
  size_t begin() const { return static_cast<size_t>(message_.data() - file_.data()); }

 private:
  enum class Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

  uint64_t varint();
  uint64_t fixed(int bytes);
  void expect(Wire wire, const char* what) const;
  [[noreturn]] void wrong(const std::string& what) const;

  std::string_view file_, name_, message_;
  size_t at_ = 0;
  int field_ = 0;
  Wire wire_ = Wire::kVarint;
  uint64_t bits_ = 0;            // of a number
  std::string_view bytes_ = {};  // of everything else
};

}  // namespace lathe
