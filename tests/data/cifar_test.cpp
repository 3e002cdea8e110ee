#include "lathe/data/images/cifar.h"

#include <doctest/doctest.h>

#include "files.h"
#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/data/images/byte_stream.h"

namespace lathe::data {
namespace {

using namespace testing;

CifarFormat three_records() { return {"CIFAR-3", 3, 1, 0, {10}}; }

std::string record(int label, int seed) {
  std::string out(3073, '\0');
  out[0] = static_cast<char>(label);
  for (int k = 0; k < 3072; ++k) out[static_cast<size_t>(k + 1)] = static_cast<char>(k * 7 + seed);
  return out;
}

TEST_CASE("cifar: records come out in order, over all files") {
  const TempDir dir;
  write_file(dir / "a.bin", record(3, 0) + record(9, 1) + record(0, 2));
  write_file(dir / "b.bin", record(1, 3) + record(2, 4) + record(5, 5));
  const ImageSet set = read_cifar({dir / "a.bin", dir / "b.bin"}, three_records());
  CHECK(set.labels == std::vector<uint8_t>{3, 9, 0, 1, 2, 5});
  REQUIRE(set.pixels.size() == 6 * 3072);
  for (int i = 0; i < 6; ++i)
    for (const int k : {0, 1023, 1024, 3071})
      CHECK(set.image(i)[k] == static_cast<uint8_t>(k * 7 + i));
}

TEST_CASE("cifar: a gzip file is inflated, and must hold exactly the records" *
          doctest::skip(!gzip_available())) {
  const TempDir dir;
  const std::string plain = record(3, 0) + record(9, 1) + record(0, 2);
  const auto path = dir / "a.bin.gz";
  write_file(path, gzip(plain));
  CHECK(read_cifar({path}, three_records()).labels == std::vector<uint8_t>{3, 9, 0});
  const auto message = [&](const std::string& content) {
    write_file(path, content);
    return message_of<DataError>([&] { read_cifar({path}, three_records()); });
  };
  CHECK(message(gzip(plain + "x")) ==
        path.string() + ": goes on after the 3 records of a CIFAR-3 file");
  CHECK(message(gzip(plain.substr(1))).find("ends after 9218 bytes of records") !=
        std::string::npos);
  CHECK(message("\x1f\x8b").find("holds at most 2064 bytes, but a CIFAR-3 file has 9219") !=
        std::string::npos);
}

TEST_CASE("cifar: CIFAR-100 takes the class or the superclass") {
  const TempDir dir;
  CifarFormat format = cifar100_test_format();
  format.records = 1;
  write_file(dir / "t.bin", std::string("\x13\x63") + std::string(3072, 'x'));
  CHECK(read_cifar({dir / "t.bin"}, format).labels == std::vector<uint8_t>{99});
  format.label_at = cifar100_test_format(true).label_at;
  CHECK(read_cifar({dir / "t.bin"}, format).labels == std::vector<uint8_t>{19});
  write_file(dir / "t.bin", std::string("\x14\x63") + std::string(3072, 'x'));
  CHECK(message_of<DataError>([&] {
          read_cifar({dir / "t.bin"}, format);
        }).find("record 0 has label 20, but CIFAR-100 test labels are 0 to 19") !=
        std::string::npos);
}

TEST_CASE("cifar: a wrong label names file, record and value") {
  const TempDir dir;
  write_file(dir / "a.bin", record(3, 0) + record(10, 1) + record(0, 2));
  CHECK(message_of<DataError>([&] { read_cifar({dir / "a.bin"}, three_records()); }) ==
        (dir / "a.bin").string() + ": record 1 has label 10, but CIFAR-3 labels are 0 to 9");
}

TEST_CASE("cifar: a file of another size names both sizes and the record that it ends in") {
  const TempDir dir;
  for (const int64_t size : {0, 1, 3073, 3 * 3073 - 1, 3 * 3073 + 1, 4 * 3073}) {
    write_sparse_file(dir / "a.bin", static_cast<uint64_t>(size));
    CHECK(message_of<DataError>([&] { read_cifar({dir / "a.bin"}, three_records()); }) ==
          (dir / "a.bin").string() + ": has " + std::to_string(size) +
              " bytes, but a CIFAR-3 file has 9219 (3 records of 3073 bytes; this one ends in "
              "record " +
              std::to_string(size / 3073) + ")");
  }
}

TEST_CASE("cifar: the official formats have the official sizes") {
  CHECK(cifar10_format().records * 3073 == 30'730'000);
  CHECK(cifar100_train_format().records * 3074 == 153'700'000);
  CHECK(cifar100_test_format().records * 3074 == 30'740'000);
}

TEST_CASE("cifar: a missing file and a directory are file errors with the path") {
  const TempDir dir;
  CHECK(message_of<FileError>([&] { read_cifar({dir / "none.bin"}, three_records()); }) ==
        (dir / "none.bin").string() + ": cannot open: No such file or directory");
  CHECK(message_of<FileError>([&] { read_cifar({dir.path()}, three_records()); }) ==
        dir.path().string() + ": is a directory, not a file");
}

TEST_CASE("cifar: a disk that fails in the middle is a file error, not half a data set") {
  const TempDir dir;
  write_file(dir / "a.bin", record(3, 0) + record(9, 1) + record(0, 2));
  file_faults().read.count();
  read_cifar({dir / "a.bin"}, three_records());
  const int64_t reads = file_faults().read.calls();
  file_faults().read.disarm();
  for (int64_t n = 1; n <= reads; ++n) {
    const ArmedFault broken(file_faults().read, n);
    CHECK_THROWS_AS(read_cifar({dir / "a.bin"}, three_records()), FileError);
  }
  const ArmedFault slow(file_faults().partial, 1, FaultPoint::kForever);
  CHECK(read_cifar({dir / "a.bin"}, three_records()).count() == 3);
}

}  // namespace
}  // namespace lathe::data
