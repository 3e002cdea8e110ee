// CIFAR's binary files: the three formats, checks of a file's size, reading of its records.
#include "lathe/data/images/cifar.h"

#include <cstring>

#include "lathe/core/error.h"
#include "lathe/core/range_text.h"
#include "lathe/data/images/byte_stream.h"

namespace lathe::data {
namespace {

constexpr int64_t kChannels = 3, kSide = 32;
constexpr int64_t kImageBytes = kChannels * kSide * kSide;
constexpr int64_t kRecordsAtATime = 256;

void check_labels(const std::filesystem::path& path, const CifarFormat& format, int64_t record,
                  const uint8_t* labels) {
  for (int64_t k = 0; k < format.label_bytes; ++k)
    LATHE_CHECK(DataError, labels[k] < format.classes[static_cast<size_t>(k)], path.string(),
                ": record ", record, " has label ", int64_t{labels[k]}, ", but ", format.name,
                " labels are ", range_text<int64_t>(0, format.classes[static_cast<size_t>(k)] - 1));
}

/// Checks the size before anything is read or allocated. For a gzip file only an upper bound is
/// known; its true size shows at its end.
void check_size(const std::filesystem::path& path, const CifarFormat& format,
                const ByteStream& stream) {
  const auto record_bytes = static_cast<uint64_t>(format.label_bytes + kImageBytes);
  const uint64_t expected = static_cast<uint64_t>(format.records) * record_bytes;
  const uint64_t bytes = stream.size_bound();
  if (!stream.size_is_known()) {
    LATHE_CHECK(DataError, bytes >= expected, path.string(), ": holds at most ", bytes,
                " bytes, but a ", format.name, " file has ", expected);
    return;
  }
  LATHE_CHECK(DataError, bytes == expected, path.string(), ": has ", bytes, " bytes, but a ",
              format.name, " file has ", expected, " (", format.records, " records of ",
              record_bytes, " bytes; this one ends in record ", bytes / record_bytes, ")");
}

void read_file(const std::filesystem::path& path, const CifarFormat& format, ImageSet& out) {
  const auto stream = open_stream(path);
  check_size(path, format, *stream);
  const int64_t record_bytes = format.label_bytes + kImageBytes;
  std::vector<uint8_t> chunk(static_cast<size_t>(kRecordsAtATime * record_bytes));
  for (int64_t first = 0; first < format.records; first += kRecordsAtATime) {
    const int64_t count = std::min(kRecordsAtATime, format.records - first);
    read_exact(*stream, chunk.data(), static_cast<size_t>(count * record_bytes), path, "records");
    for (int64_t k = 0; k < count; ++k) {
      const uint8_t* record = chunk.data() + k * record_bytes;
      check_labels(path, format, first + k, record);
      out.labels.push_back(record[format.label_at]);
      const uint8_t* image = record + format.label_bytes;
      out.pixels.insert(out.pixels.end(), image, image + kImageBytes);
    }
  }
  uint8_t extra;
  LATHE_CHECK(DataError, stream->read(&extra, 1) == 0, path.string(), ": goes on after the ",
              format.records, " records of a ", format.name, " file");
}

}  // namespace

CifarFormat cifar10_format() { return {"CIFAR-10", 10'000, 1, 0, {10}}; }

CifarFormat cifar100_train_format(bool coarse) {
  return {"CIFAR-100 training", 50'000, 2, coarse ? 0 : 1, {20, 100}};
}

CifarFormat cifar100_test_format(bool coarse) {
  return {"CIFAR-100 test", 10'000, 2, coarse ? 0 : 1, {20, 100}};
}

ImageSet read_cifar(const std::vector<std::filesystem::path>& files, const CifarFormat& format) {
  ImageSet out{kChannels, kSide, kSide, {}, {}};
  const size_t records = files.size() * static_cast<size_t>(format.records);
  out.pixels.reserve(records * kImageBytes);
  out.labels.reserve(records);
  for (const auto& file : files) read_file(file, format, out);
  return out;
}

}  // namespace lathe::data
