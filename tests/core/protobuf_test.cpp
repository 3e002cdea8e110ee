// Protobuf's wire format: what the writer makes is read, and damaged messages are refused with the
// byte.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/formats/protobuf_reader.h"
#include "lathe/core/formats/protobuf_writer.h"
#include "lathe/tests/data/files.h"

namespace lathe {
namespace {

using data::testing::message_of;

/// The error of reading all fields of a message.
std::string error_of(const std::string& bytes) {
  return message_of<DataError>([&] {
    ProtobufReader in(bytes, "m");
    while (in.next()) {
    }
  });
}

TEST_CASE("protobuf: what is written is read, in its order") {
  ProtobufMessage inner, out;
  inner.add_int(1, -3);
  out.add_int(1, 300);
  out.add_float(2, 0.5f);
  out.add_text(3, "abc");
  out.add_message(70000, inner);
  out.add_doubles(5, {1.5, -2});
  ProtobufReader in(out.text(), "m");
  REQUIRE(in.next());
  CHECK(in.field() == 1);
  CHECK(in.integer() == 300);
  REQUIRE(in.next());
  CHECK(in.real() == 0.5f);
  REQUIRE(in.next());
  CHECK(in.text() == "abc");
  CHECK(in.text().data() > out.text().data());  // it lies in the file
  REQUIRE(in.next());
  CHECK(in.field() == 70000);
  ProtobufReader message = in.message();
  REQUIRE(message.next());
  CHECK(message.integer() == -3);
  CHECK_FALSE(message.next());
  REQUIRE(in.next());
  std::vector<double> reals;
  in.append_to(reals);
  CHECK(reals == std::vector<double>{1.5, -2});
  CHECK_FALSE(in.next());
}

TEST_CASE("protobuf: repeated numbers, packed or not") {
  const std::string bytes("\x0a\x03\x01\xac\x02\x08\x07\x12\x04\x00\x00\x80\x3f", 13);
  std::vector<int64_t> integers;
  std::vector<float> reals;
  for (ProtobufReader in(bytes, "m"); in.next();) {
    if (in.field() == 1) in.append_to(integers);
    if (in.field() == 2) in.append_to(reals);
  }
  CHECK(integers == std::vector<int64_t>{1, 300, 7});
  CHECK(reals == std::vector<float>{1});
}

TEST_CASE("protobuf: damaged messages are refused with the byte") {
  CHECK(error_of("\x08\x80") == "m: byte 2: a number does not end inside its message");
  CHECK(error_of("\x08" + std::string(9, '\xff') + "\x02") ==
        "m: byte 11: a number has more than 64 bits");
  CHECK(error_of("\x12\x05"
                 "ab") == "m: byte 2: field 2 has 5 bytes, its message has 2 more");
  CHECK(error_of("\x15\x01") == "m: byte 1: a number of 4 bytes does not end inside its message");
  CHECK(error_of("\x0b") == "m: byte 1: field 1 is of the unknown wire type 3");
  CHECK(error_of(std::string("\x00", 1)) == "m: byte 1: there is no field 0");
  ProtobufReader in("\x08\x01", "m");
  REQUIRE(in.next());
  CHECK(message_of<DataError>([&] { (void)in.text(); }) ==
        "m: byte 2: field 1 before here must be a text or a message");
}

}  // namespace
}  // namespace lathe
