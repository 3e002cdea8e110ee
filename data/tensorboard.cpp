// EventWriter: protobuf messages in TFRecord frames.
#include "lathe/data/tensorboard.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/files/crc32c.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/files/write_signals.h"
#include "lathe/core/formats/protobuf_writer.h"
#include "lathe/data/images/image.h"

namespace lathe {

namespace {

// Numbers of the fields in event.proto, summary.proto, tensor.proto and histogram.proto.
namespace field {
constexpr int kEventWallTime = 1, kEventStep = 2, kEventFileVersion = 3, kEventSummary = 5,
              kEventSessionLog = 7;
constexpr int kSessionLogStatus = 1;
constexpr int kSummaryValue = 1;
constexpr int kValueTag = 1, kValueScalar = 2, kValueImage = 4, kValueHistogram = 5,
              kValueTensor = 8, kValueMetadata = 9;
constexpr int kMetadataPlugin = 1, kPluginName = 1;
constexpr int kImageHeight = 1, kImageWidth = 2, kImageChannels = 3, kImageBytes = 4;
constexpr int kHistogramMin = 1, kHistogramMax = 2, kHistogramCount = 3, kHistogramSum = 4,
              kHistogramSquares = 5, kHistogramLimits = 6, kHistogramBuckets = 7;
constexpr int kTensorDtype = 1, kTensorShape = 2, kTensorStrings = 8;
}  // namespace field
constexpr int kSessionStart = 1, kDtypeString = 7;
constexpr int kBuckets = 30;

void add_little_endian(std::string& out, uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

/// TFRecord's checksum: a CRC-32C, changed so that the CRC of data that holds CRCs is no trivial
/// one.
uint32_t masked_crc(std::string_view data) {
  const uint32_t crc = crc32c(data.data(), data.size());
  return (crc >> 15 | crc << 17) + 0xa282ead8U;
}

double now() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

ProtobufMessage event_at(double wall_time, int64_t step) {
  ProtobufMessage event;
  event.add_double(field::kEventWallTime, wall_time);
  event.add_int(field::kEventStep, step);
  return event;
}

/// An event with one value, of which add_content() writes the content. `plugin` is the part of
/// TensorBoard that shows it.
template <class F>
std::string summary_event(std::string_view tag, int64_t step, std::string_view plugin,
                          F add_content) {
  ProtobufMessage plugin_data, metadata, value, summary;
  plugin_data.add_text(field::kPluginName, plugin);
  metadata.add_message(field::kMetadataPlugin, plugin_data);
  value.add_text(field::kValueTag, tag);
  add_content(value);
  value.add_message(field::kValueMetadata, metadata);
  summary.add_message(field::kSummaryValue, value);
  ProtobufMessage event = event_at(now(), step);
  event.add_message(field::kEventSummary, summary);
  return event.text();
}

std::string host_name() {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 && *name != '\0' ? name : "localhost";
}

/// Without values: one empty range.
ProtobufMessage histogram_of(const std::vector<double>& values) {
  const auto [least, most] =
      values.empty() ? std::ranges::minmax_result<double>{0, 0} : std::ranges::minmax(values);
  double sum = 0, squares = 0;
  std::vector<double> counts(kBuckets), limits(kBuckets);
  const double width = most / kBuckets - least / kBuckets;
  for (const double value : values) {
    sum += value;
    squares += value * value;
    const double at = width > 0 ? (value - least) / width : 0;
    ++counts[static_cast<size_t>(std::clamp(at, 0.0, kBuckets - 1.0))];
  }
  for (int i = 0; i < kBuckets; ++i) limits[static_cast<size_t>(i)] = least + width * (i + 1);
  limits.back() = most;  // rounding may have put it below
  ProtobufMessage histogram;
  histogram.add_double(field::kHistogramMin, least);
  histogram.add_double(field::kHistogramMax, most);
  histogram.add_double(field::kHistogramCount, static_cast<double>(values.size()));
  histogram.add_double(field::kHistogramSum, sum);
  histogram.add_double(field::kHistogramSquares, squares);
  histogram.add_doubles(field::kHistogramLimits, limits);
  histogram.add_doubles(field::kHistogramBuckets, counts);
  return histogram;
}

}  // namespace

EventWriter::EventWriter(const std::filesystem::path& folder, const EventWriterOptions& options) {
  make_folders(folder);
  const std::string begin = concat("events.out.tfevents.", static_cast<int64_t>(now()), ".",
                                   host_name(), ".", getpid(), ".");
  const std::string end = options.suffix.empty() ? "" : "." + options.suffix;
  for (int number = 0; descriptor_ < 0; ++number) {
    file_ = folder / concat(begin, number, end);
    descriptor_ = open(file_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_APPEND | O_CLOEXEC, 0666);
    LATHE_CHECK(FileError, descriptor_ >= 0 || errno == EEXIST, file_.string(),
                ": cannot be made: ", std::strerror(errno));
  }
  try {
    ProtobufMessage first = event_at(now(), 0);
    first.add_text(field::kEventFileVersion, "brain.Event:2");
    append(first.text());
    if (options.first_step < 0) return;
    ProtobufMessage start, event = event_at(now(), options.first_step);
    start.add_int(field::kSessionLogStatus, kSessionStart);
    event.add_message(field::kEventSessionLog, start);
    // Twice: TensorBoard's pages take the first start that they see for the run's own, which cuts
    // nothing off, and the earlier files of the folder have none.
    append(event.text());
    append(event.text());
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

EventWriter::~EventWriter() { close(descriptor_); }

void EventWriter::append(const std::string& event) {
  std::string record;
  add_little_endian(record, event.size(), 8);
  add_little_endian(record, masked_crc(record), 4);
  record += event;
  add_little_endian(record, masked_crc(event), 4);
  const WriteSignals errors_instead;
  const off_t size = lseek(descriptor_, 0, SEEK_END);
  for (size_t done = 0; done < record.size();) {
    const ssize_t written = write(descriptor_, record.data() + done, record.size() - done);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) {
      const int cause = errno;
      const bool cut = ftruncate(descriptor_, size) == 0;
      LATHE_FAIL(FileError, file_.string(), ": ", std::strerror(cause),
                 cut ? "" : "; its last record is incomplete");
    }
    done += static_cast<size_t>(written);
  }
}

void EventWriter::add_scalar(std::string_view tag, double value, int64_t step) {
  append(summary_event(tag, step, "scalars", [&](ProtobufMessage& out) {
    out.add_float(field::kValueScalar, static_cast<float>(value));
  }));
}

void EventWriter::add_histogram(std::string_view tag, const Tensor& values, int64_t step) {
  std::vector<double> numbers = values.detach().cpu().to_vector<double>();
  std::erase_if(numbers, [](double value) { return !std::isfinite(value); });
  append(summary_event(tag, step, "histograms", [&](ProtobufMessage& out) {
    out.add_message(field::kValueHistogram, histogram_of(numbers));
  }));
}

void EventWriter::add_image(std::string_view tag, const Tensor& x, int64_t step) {
  const std::string png = image::encode(x, ".png");
  ProtobufMessage image;
  image.add_int(field::kImageHeight, x.dim(-2));
  image.add_int(field::kImageWidth, x.dim(-1));
  image.add_int(field::kImageChannels, x.ndim() == 3 ? x.dim(0) : 1);
  image.add_text(field::kImageBytes, png);
  append(summary_event(tag, step, "images",
                       [&](ProtobufMessage& out) { out.add_message(field::kValueImage, image); }));
}

void EventWriter::add_text(std::string_view tag, std::string_view text, int64_t step) {
  ProtobufMessage tensor;
  tensor.add_int(field::kTensorDtype, kDtypeString);
  tensor.add_message(field::kTensorShape, {});  // a scalar
  tensor.add_text(field::kTensorStrings, text);
  append(summary_event(tag, step, "text", [&](ProtobufMessage& out) {
    out.add_message(field::kValueTensor, tensor);
  }));
}

}  // namespace lathe
