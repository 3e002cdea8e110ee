// ProtobufMessage: writes protobuf's wire format, for files of other programs (ONNX, TensorBoard).
// protobuf_reader.h reads it. A message is a string of bytes that fields are appended to.
// ref: https://protobuf.dev/programming-guides/encoding/
#pragma once

#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lathe {

class ProtobufMessage {
 public:
  /// Varint fields: int64, uint64, bool, enum.
  void add_int(int field, int64_t value) {
    add_tag(field, 0);
    add_varint(static_cast<uint64_t>(value));
  }
  /// float.
  void add_float(int field, float value) {
    add_tag(field, 5);
    const auto bits = std::bit_cast<uint32_t>(value);
    for (int i = 0; i < 4; ++i) text_ += static_cast<char>(bits >> (8 * i) & 0xff);
  }
  /// double.
  void add_double(int field, double value) {
    add_tag(field, 1);
    add_eight_bytes(value);
  }
  /// repeated double, packed.
  void add_doubles(int field, const std::vector<double>& values) {
    add_tag(field, 2);
    add_varint(8 * values.size());
    for (const double value : values) add_eight_bytes(value);
  }
  /// string, bytes.
  void add_text(int field, std::string_view value) {
    add_tag(field, 2);
    add_varint(value.size());
    text_ += value;
  }
  void add_message(int field, const ProtobufMessage& value) { add_text(field, value.text_); }

  const std::string& text() const { return text_; }

 private:
  void add_tag(int field, int wire_type) {
    add_varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type));
  }
  void add_eight_bytes(double value) {
    const auto bits = std::bit_cast<uint64_t>(value);
    for (int i = 0; i < 8; ++i) text_ += static_cast<char>(bits >> (8 * i) & 0xff);
  }
  void add_varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) text_ += static_cast<char>(value | 0x80);
    text_ += static_cast<char>(value);
  }

  std::string text_;
};

}  // namespace lathe
