// Packed files: the bytes are those of the description, and whatever is done to a file, before it
// is opened or under a reader, is an error that names it.
#include "lathe/data/images/packed_file.h"

#include <doctest/doctest.h>
#include <unistd.h>

#include "files.h"
#include "lathe/core/error.h"
#include "packed_bytes.h"

namespace lathe::data {
namespace {

using testing::little;
using testing::message_of;
using testing::packed_bytes;
using testing::TempDir;
using testing::three_images;
using testing::with_right_checksum;
using testing::write_file;

const std::vector<std::string> kClasses = {"cat", "dog house"};
const PackedInfo kInfo = {3, kClasses, {0.5, 1.5, 2.5}, {0.25, 0.25, 0.25}};

std::string small_file() { return packed_bytes(three_images(), 2, kClasses, 3); }

std::string pixels_of(const PackedFile& file, int64_t i) {
  std::string pixels;
  file.read(i, [&](const uint8_t* bytes) {
    pixels.assign(reinterpret_cast<const char*>(bytes), static_cast<size_t>(file.spec(i).pixels()));
  });
  return pixels;
}

/// Opens the file and reads every image.
void read_all(const std::filesystem::path& path) {
  const PackedFile file(path);
  for (int64_t i = 0; i < file.size(); ++i) pixels_of(file, i);
}

void add_small(PackedWriter& writer) {
  for (const auto& image : three_images()) {
    if (writer.size() == 2) writer.begin_test();
    writer.add(reinterpret_cast<const uint8_t*>(image.pixels.data()), image.height, image.width,
               image.label);
  }
}

void write_small(const std::filesystem::path& path) {
  PackedWriter writer(path, kInfo);
  add_small(writer);
  writer.commit();
}

TEST_CASE("packed file: written as described, and read back") {
  const TempDir dir;
  write_small(dir / "f");
  CHECK(testing::read_file(dir / "f") == small_file());
  const PackedFile file(dir / "f");
  CHECK(file.info().class_names == kClasses);
  CHECK(file.info().mean == std::vector<double>{0.5, 1.5, 2.5});
  CHECK(file.info().std == std::vector<double>{0.25, 0.25, 0.25});
  CHECK(file.train_images() == 2);
  REQUIRE(file.size() == 3);
  const auto images = three_images();
  for (int64_t i = 0; i < 3; ++i) {
    const auto& image = images[static_cast<size_t>(i)];
    CHECK(file.spec(i) == ImageSpec{3, image.height, image.width});
    CHECK(file.label(i) == image.label);
    for (int times = 0; times < 2; ++times) CHECK(pixels_of(file, i) == image.pixels);
  }
}

TEST_CASE("packed file: without commit, or after a fault, the old file stays and nothing else") {
  const TempDir dir;
  write_file(dir / "f", "old");
  {
    PackedWriter writer(dir / "f", {1, {"a"}, {0}, {1}});
    writer.add(reinterpret_cast<const uint8_t*>("x"), 1, 1, 0);
  }
  for (FaultPoint* fault : {&file_faults().write, &file_faults().sync, &file_faults().rename}) {
    const ArmedFault armed(*fault, 1, FaultPoint::kForever);
    CHECK_THROWS_AS(write_small(dir / "f"), FileError);
  }
  CHECK(testing::names_in(dir.path()) == std::vector<std::string>{"f"});
  CHECK(testing::read_file(dir / "f") == "old");
}

TEST_CASE("packed file: finished before it is committed, it is the same file") {
  const TempDir dir;
  PackedWriter writer(dir / "f", kInfo);
  add_small(writer);
  std::vector<int64_t> sizes(kClasses.size());
  for (const auto& image : three_images()) ++sizes[image.label];
  CHECK(writer.class_sizes() == sizes);
  writer.finish();
  CHECK_FALSE(is_packed_file(dir / "f"));
  CHECK_THROWS_AS(add_small(writer), StateError);
  writer.commit();
  CHECK(testing::read_file(dir / "f") == small_file());
  CHECK(is_packed_file(dir / "f"));
  write_file(dir / "short", "\x89LPK");
  CHECK_FALSE(is_packed_file(dir / "short"));
  CHECK_FALSE(is_packed_file(dir.path()));
}

TEST_CASE("packed file: what cannot be written is refused") {
  const TempDir dir;
  const uint8_t pixel[3] = {};
  CHECK_THROWS_AS(PackedWriter(dir / "f", {0, {"a"}, {}, {}}), ValueError);
  CHECK_THROWS_AS(PackedWriter(dir / "f", {17, {"a"}, {}, {}}), ValueError);
  CHECK_THROWS_AS(PackedWriter(dir / "f", {1, {"a"}, {0, 0}, {1}}), ValueError);
  CHECK_THROWS_AS(PackedWriter(dir / "f", {1, {"a"}, {0}, {0}}), ValueError);
  CHECK_THROWS_AS(PackedWriter(dir / "f", {1, {}, {0}, {1}}), ValueError);
  PackedWriter writer(dir / "f", {3, kClasses, {0, 0, 0}, {1, 1, 1}});
  CHECK_THROWS_AS(writer.add(pixel, 0, 1, 0), ValueError);
  CHECK_THROWS_AS(writer.add(pixel, 1, 65537, 0), ValueError);
  CHECK_THROWS_AS(writer.add(pixel, 1, 1, 2), ValueError);
  CHECK_THROWS_AS(writer.add(pixel, 1, 1, -1), ValueError);
  CHECK_THROWS_AS(writer.commit(), StateError);
}

TEST_CASE("packed file: every truncation and every flipped bit is an error that names the file") {
  const TempDir dir;
  const std::string whole = small_file();
  write_file(dir / "f", whole);
  read_all(dir / "f");
  const auto message = [&](const std::string& bytes) {
    std::filesystem::remove(dir / "f");  // file systems may sync one that is overwritten
    write_file(dir / "f", bytes);
    const std::string data = message_of<DataError>([&] { read_all(dir / "f"); });
    CHECK(data.find("/f: ") != std::string::npos);
    return data;
  };
  for (size_t size = 0; size < whole.size(); ++size) {
    CAPTURE(size);
    message(whole.substr(0, size));
  }
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    CAPTURE(bit);
    std::string changed = whole;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ 1 << bit % 8);
    message(changed);
  }
  message(whole + whole);
  message(whole + '\0');
  CHECK(message("").find("is empty") != std::string::npos);
  CHECK(message(whole.substr(0, 40)).find("cut off") != std::string::npos);
  CHECK(message("PK\3\4" + whole).find("lathe data prepare") != std::string::npos);
}

TEST_CASE("packed file: values that do not fit are found though the checksum is right") {
  const TempDir dir;
  const std::string whole = small_file();
  const size_t tail = whole.size() - testing::kPackedTailBytes;
  const size_t names = tail - (4 + 3 + 4 + 9), values = names - 3 * 16, table = values - 3 * 16;
  struct Change {
    size_t at;
    std::string bytes;
    const char* message;
  };
  for (const Change& change : {
           Change{8, little(2, 4), "version 2"},
           {12, little(1, 4), "has 1 behind its version"},
           {tail, little(0, 8), "declares 0 images"},
           {tail, little(1ull << 62, 8), "more than 2^63"},
           {tail, little(4, 8), "bytes, but declares"},
           {tail + 8, little(4, 8), "declares 3 images, 4 of them"},
           {tail + 8, little(~0ull, 8), "declares 3 images, -1 of them"},
           {tail + 16, little(1ull << 40, 8), "bytes, but declares"},
           {tail + 16, little(~0ull, 8), "in -1 bytes"},
           {tail + 24, little(1ull << 63, 8), "bytes of names"},
           {tail + 32, little(0, 4), "declares 0 classes"},
           {tail + 32, little(6, 4), "declares 6 classes in 20 bytes"},
           {tail + 32, little(1, 4), "13 bytes behind the names"},
           {tail + 32, little(3, 4), "name of class 2"},
           {tail + 36, little(0, 4), "declares 0 channels"},
           {tail + 36, little(17, 4), "declares 17 channels"},
           {names, little(100, 4), "name of class 0"},
           {values + 16, little(0.0 / 0.0), "channel 1 has mean"},
           {values + 8, little(-1.0), "channel 0 has mean 0.5 and std -1"},
           {table, little(0, 4), "record 0 is an image of 0x3"},
           {table + 16, little(65537, 4), "record 1 is an image of 65537x2"},
           {table + 16, little(1000, 4), "record 1 ends behind"},
           {table + 32, little(1, 4), "images take 33 bytes, but 39"},
           {table + 24, little(2, 4), "record 1 has label 2, but labels are 0 to 1"},
       }) {
    CAPTURE(change.message);
    std::string bytes = whole;
    bytes.replace(change.at, change.bytes.size(), change.bytes);
    write_file(dir / "f", with_right_checksum(bytes));
    const std::string message = message_of<DataError>([&] { read_all(dir / "f"); });
    CHECK_MESSAGE(message.find(change.message) != std::string::npos, message);
  }
}

TEST_CASE("packed file: each byte of a count matters, though the checksum is right") {
  const TempDir dir;
  const std::string whole = small_file();
  const size_t tail = whole.size() - testing::kPackedTailBytes, train_images = tail + 8;
  for (size_t at = tail; at < tail + 40; ++at) {
    if (at == train_images) continue;  // any of 0 to 3 will do
    for (const int change : {1, 0x80}) {
      CAPTURE(at - tail);
      std::string bytes = whole;
      bytes[at] = static_cast<char>(bytes[at] ^ change);
      write_file(dir / "f", with_right_checksum(bytes));
      const std::string message = message_of<DataError>([&] { read_all(dir / "f"); });
      CHECK(message.find("/f: ") != std::string::npos);
      CHECK(message.find("checksum") == std::string::npos);
    }
  }
}

TEST_CASE("packed file: a damaged image is named, each time, and the others are read") {
  const TempDir dir;
  std::string bytes = small_file();
  bytes[16 + 19] = 'x';  // of image 1
  write_file(dir / "f", bytes);
  const PackedFile file(dir / "f");
  for (int times = 0; times < 2; ++times) {
    CHECK(message_of<DataError>([&] {
            pixels_of(file, 1);
          }).find("f: record 1 (1x2, class cat) is damaged") != std::string::npos);
    CHECK(pixels_of(file, 0) == three_images()[0].pixels);
  }
}

TEST_CASE("packed file: cut off under a reader is a FileError, replaced is read on as it was") {
  const TempDir dir;
  std::vector<testing::PackedImage> images;
  for (uint32_t k = 0; k < 40; ++k)
    images.push_back({16, 16, 0, std::string(256, static_cast<char>(k))});  // 0: all zeros
  const std::string whole = packed_bytes(images, 40, {"a"}, 1);
  for (const bool seen_before : {false, true}) {
    write_file(dir / "f", whole);
    const PackedFile file(dir / "f");
    if (seen_before)
      for (int64_t i = 0; i < 40; ++i) pixels_of(file, i);
    REQUIRE(::truncate((dir / "f").c_str(), 5000) == 0);
    for (int64_t i = 0; i < 40; ++i) {
      CAPTURE(i);
      if (16 + (i + 1) * 257 <= 5000) {
        CHECK(pixels_of(file, i) == images[static_cast<size_t>(i)].pixels);
      } else {
        CHECK(message_of<FileError>([&] { pixels_of(file, i); }).find("was cut off") !=
              std::string::npos);
      }
    }
  }
  write_file(dir / "f", whole);
  const PackedFile file(dir / "f");
  write_small(dir / "f");
  for (int64_t i = 0; i < 40; ++i)
    CHECK(pixels_of(file, i) == images[static_cast<size_t>(i)].pixels);
}

}  // namespace
}  // namespace lathe::data
