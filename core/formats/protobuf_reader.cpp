// Reading protobuf's wire format: tags, lengths and numbers, each checked before it is used.
#include "lathe/core/formats/protobuf_reader.h"

#include <bit>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/formats/little_endian.h"

namespace lathe {

void ProtobufReader::wrong(const std::string& what) const {
  LATHE_FAIL(DataError, name_, ": byte ", begin() + at_, ": ", what);
}

uint64_t ProtobufReader::varint() {
  uint64_t value = 0;
  for (int shift = 0; shift < 64; shift += 7) {
    if (at_ == message_.size()) wrong("a number does not end inside its message");
    const auto byte = static_cast<unsigned char>(message_[at_++]);
    const uint64_t bits = byte & 0x7f;
    if (shift == 63 && bits > 1) break;
    value |= bits << shift;
    if (byte < 0x80) return value;
  }
  wrong("a number has more than 64 bits");
}

uint64_t ProtobufReader::fixed(int bytes) {
  if (message_.size() - at_ < static_cast<size_t>(bytes)) {
    wrong(concat("a number of ", bytes, " bytes does not end inside its message"));
  }
  const uint64_t value = number_at(message_, static_cast<int64_t>(at_), bytes);
  at_ += static_cast<size_t>(bytes);
  return value;
}

bool ProtobufReader::next() {
  if (at_ == message_.size()) return false;
  const uint64_t tag = varint(), number = tag >> 3;
  constexpr uint64_t kLargestField = (1 << 29) - 1;
  if (number == 0 || number > kLargestField) wrong(concat("there is no field ", number));
  field_ = static_cast<int>(number);
  bits_ = 0;
  bytes_ = {};
  wire_ = static_cast<Wire>(tag & 7);
  switch (wire_) {
    case Wire::kVarint: bits_ = varint(); break;
    case Wire::kFixed64: bits_ = fixed(8); break;
    case Wire::kFixed32: bits_ = fixed(4); break;
    case Wire::kBytes: {
      const uint64_t size = varint();
      if (size > message_.size() - at_) {
        wrong(concat("field ", field_, " has ", size, " bytes, its message has ",
                     message_.size() - at_, " more"));
      }
      bytes_ = message_.substr(at_, static_cast<size_t>(size));
      at_ += bytes_.size();
      break;
    }
    default: wrong(concat("field ", field_, " is of the unknown wire type ", tag & 7));
  }
  return true;
}

void ProtobufReader::expect(Wire wire, const char* what) const {
  if (wire_ != wire) wrong(concat("field ", field_, " before here must be ", what));
}

int64_t ProtobufReader::integer() const {
  expect(Wire::kVarint, "an integer");
  return static_cast<int64_t>(bits_);
}

float ProtobufReader::real() const {
  expect(Wire::kFixed32, "a float");
  return std::bit_cast<float>(static_cast<uint32_t>(bits_));
}

std::string_view ProtobufReader::text() const {
  expect(Wire::kBytes, "a text or a message");
  return bytes_;
}

ProtobufReader ProtobufReader::inside(std::string_view message) const {
  ProtobufReader reader(file_, name_);
  reader.message_ = message;
  return reader;
}

void ProtobufReader::append_to(std::vector<int64_t>& integers) const {
  if (wire_ != Wire::kBytes) {
    integers.push_back(integer());
    return;
  }
  ProtobufReader packed = inside(bytes_);
  while (packed.at_ < bytes_.size()) integers.push_back(static_cast<int64_t>(packed.varint()));
}

void ProtobufReader::append_to(std::vector<float>& reals) const {
  if (wire_ != Wire::kBytes) {
    reals.push_back(real());
    return;
  }
  ProtobufReader packed = inside(bytes_);
  while (packed.at_ < bytes_.size()) {
    reals.push_back(std::bit_cast<float>(static_cast<uint32_t>(packed.fixed(4))));
  }
}

void ProtobufReader::append_to(std::vector<double>& reals) const {
  if (wire_ != Wire::kBytes) {
    expect(Wire::kFixed64, "a double");
    reals.push_back(std::bit_cast<double>(bits_));
    return;
  }
  ProtobufReader packed = inside(bytes_);
  while (packed.at_ < bytes_.size()) reals.push_back(std::bit_cast<double>(packed.fixed(8)));
}

}  // namespace lathe
