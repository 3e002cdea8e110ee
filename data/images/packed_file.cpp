// Packed files: PackedWriter, then PackedFile, which trusts no number of the file before checking
// it.
#include "lathe/data/images/packed_file.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <string_view>
#include <utility>

#include "lathe/core/checked_size.h"
#include "lathe/core/error.h"
#include "lathe/core/files/crc32c.h"
#include "lathe/core/formats/little_endian.h"
#include "lathe/core/range_text.h"
#include "lathe/data/transforms/resize.h"

namespace lathe::data {
namespace {

using namespace std::string_view_literals;
constexpr std::string_view kMagic = "\x89LPK\r\n\x1a\n"sv, kTailMagic = "LPKE"sv;
constexpr int64_t kHeadBytes = 16, kEntryBytes = 16, kChannelBytes = 16, kTailBytes = 48;
constexpr int64_t kTailCrcAt = 40;

void check_info(const PackedInfo& info) {
  const auto channels = static_cast<size_t>(std::max<int64_t>(info.channels, 0));
  LATHE_CHECK(ValueError, info.channels >= 1 && info.channels <= kMaxImageChannels,
              "packed file: ", info.channels, " channels; possible are 1 to ", kMaxImageChannels);
  LATHE_CHECK(ValueError, info.mean.size() == channels && info.std.size() == channels,
              "packed file: ", info.mean.size(), " means and ", info.std.size(), " stds of ",
              info.channels, " channels");
  for (size_t c = 0; c < channels; ++c)
    LATHE_CHECK(ValueError,
                std::isfinite(info.mean[c]) && std::isfinite(info.std[c]) && info.std[c] > 0,
                "packed file: channel ", c, " has mean ", info.mean[c], " and std ", info.std[c]);
  LATHE_CHECK(ValueError, !info.class_names.empty(), "packed file: no classes");
}

std::string head_bytes() {
  std::string head(kMagic);
  append_number(head, kPackedVersion, 4);
  append_number(head, 0, 4);
  return head;
}

uint32_t crc_of(std::string_view text, uint32_t before) {
  return crc32c(text.data(), text.size(), before);
}

/// The numbers of the tail. None is used before check_sizes().
struct Tail {
  int64_t images, train_images, image_bytes, name_bytes, classes, channels;
  uint32_t crc;

  int64_t directory_bytes() const {  // table, values and names
    return images * kEntryBytes + channels * kChannelBytes + name_bytes;
  }
};

Tail parse_tail(std::string_view tail) {
  const auto number = [&](int64_t at, int bytes) {
    return static_cast<int64_t>(number_at(tail, at, bytes));
  };
  return {number(0, 8),
          number(8, 8),
          number(16, 8),
          number(24, 8),
          number(32, 4),
          number(36, 4),
          static_cast<uint32_t>(number(kTailCrcAt, 4))};
}

/// Checks that the parts make up exactly the file, and that the counts agree with the sizes.
void check_sizes(const Tail& tail, int64_t file_bytes, const std::string& path) {
  LATHE_CHECK(DataError,
              tail.images >= 1 && tail.image_bytes >= 1 && tail.train_images >= 0 &&
                  tail.train_images <= tail.images,
              path, ": is damaged: it declares ", tail.images, " images, ", tail.train_images,
              " of them for training, in ", tail.image_bytes, " bytes");
  LATHE_CHECK(DataError, tail.channels >= 1 && tail.channels <= kMaxImageChannels, path,
              ": declares ", tail.channels, " channels; possible are 1 to ", kMaxImageChannels);
  LATHE_CHECK(DataError, tail.classes >= 1 && tail.classes <= tail.name_bytes / 4, path,
              ": declares ", tail.classes, " classes in ", tail.name_bytes, " bytes of names");
  CheckedSize bytes = tail.images;
  bytes *= kEntryBytes;
  bytes += tail.channels * kChannelBytes;
  bytes += tail.name_bytes;
  bytes += tail.image_bytes;
  bytes += kHeadBytes + kTailBytes;
  const int64_t declared = bytes.value_or_throw<DataError>(path, ": declares more than 2^63 bytes");
  LATHE_CHECK(DataError, declared == file_bytes, path, ": has ", file_bytes,
              " bytes, but declares ", declared);
}

std::string text_of(const MappedFile& file, int64_t offset, int64_t bytes) {
  std::string text;
  file.read(offset, bytes, [&](const std::byte* from) {
    text.assign(reinterpret_cast<const char*>(from), static_cast<size_t>(bytes));
  });
  return text;
}

std::vector<double> read_doubles(std::string_view values, int64_t first) {
  std::vector<double> out;
  for (int64_t at = first; at < static_cast<int64_t>(values.size()); at += kChannelBytes)
    out.push_back(std::bit_cast<double>(number_at(values, at, 8)));
  return out;
}

std::vector<std::string> read_names(std::string_view names, int64_t classes,
                                    const std::string& path) {
  std::vector<std::string> out;
  for (int64_t k = 0; k < classes; ++k) {
    const uint64_t length = names.size() < 4 ? 0 : number_at(names, 0, 4);
    LATHE_CHECK(DataError, names.size() >= 4 && length <= names.size() - 4, path,
                ": the name of class ", k, " is longer than the bytes that are left for names");
    out.emplace_back(names.substr(4, length));
    names.remove_prefix(4 + length);
  }
  LATHE_CHECK(DataError, names.empty(), path, ": has ", names.size(), " bytes behind the names of ",
              classes, " classes");
  return out;
}

}  // namespace

PackedWriter::PackedWriter(const std::string& path, PackedInfo info)
    : info_((check_info(info), std::move(info))),
      class_sizes_(info_.class_names.size()),
      file_(path),
      head_(head_bytes()) {
  file_.write(head_);
}

void PackedWriter::add(const uint8_t* pixels, int64_t height, int64_t width, int64_t label) {
  LATHE_CHECK(StateError, !is_finished_, "packed file: an image after the file was finished");
  LATHE_CHECK(ValueError,
              height >= 1 && width >= 1 && height <= kMaxImageSide && width <= kMaxImageSide,
              "packed file: image ", size(), " is ", height, "x", width, "; sides are 1 to ",
              kMaxImageSide);
  LATHE_CHECK(ValueError, label >= 0 && label < static_cast<int64_t>(info_.class_names.size()),
              "packed file: image ", size(), " has label ", label, ", but there are ",
              info_.class_names.size(), " classes");
  const auto bytes = static_cast<size_t>(info_.channels * height * width);
  file_.write(pixels, bytes);
  file_.write(&PackedFile::kImageEnd, 1);
  ++images_;
  ++class_sizes_[static_cast<size_t>(label)];
  image_bytes_ += static_cast<int64_t>(bytes) + 1;
  append_number(table_, static_cast<uint64_t>(height), 4);
  append_number(table_, static_cast<uint64_t>(width), 4);
  append_number(table_, static_cast<uint64_t>(label), 4);
  append_number(table_, crc32c(pixels, bytes), 4);
}

void PackedWriter::finish() {
  if (is_finished_) return;
  LATHE_CHECK(StateError, size() > 0, "packed file: no images were added");
  std::string values, names, tail;
  for (size_t c = 0; c < info_.mean.size(); ++c) {
    append_number(values, std::bit_cast<uint64_t>(info_.mean[c]), 8);
    append_number(values, std::bit_cast<uint64_t>(info_.std[c]), 8);
  }
  for (const std::string& name : info_.class_names) {
    append_number(names, name.size(), 4);
    names += name;
  }
  const int64_t train_images = train_images_ < 0 ? size() : train_images_;
  append_number(tail, static_cast<uint64_t>(size()), 8);
  append_number(tail, static_cast<uint64_t>(train_images), 8);
  append_number(tail, static_cast<uint64_t>(image_bytes_), 8);
  append_number(tail, names.size(), 8);
  append_number(tail, info_.class_names.size(), 4);
  append_number(tail, static_cast<uint64_t>(info_.channels), 4);
  uint32_t crc = 0;
  for (const std::string* part : {&head_, &table_, &values, &names, &tail})
    crc = crc_of(*part, crc);
  append_number(tail, crc, 4);
  tail += kTailMagic;
  for (const std::string* part : {&table_, &values, &names, &tail}) file_.write(*part);
  file_.sync();
  is_finished_ = true;
}

void PackedWriter::commit() {
  finish();
  file_.commit();
}

bool is_packed_file(const std::string& path) try {
  const InputFile file(path);
  std::string begin(kMagic.size(), '\0');
  if (file.size() < static_cast<int64_t>(begin.size())) return false;
  file.read(begin.data(), static_cast<int64_t>(begin.size()), 0);
  return begin == kMagic;
} catch (const FileError&) {
  return false;
}

PackedFile::PackedFile(const std::string& path) : file_(path) {
  const int64_t bytes = file_.size();
  const std::string head = text_of(file_, 0, std::min(bytes, kHeadBytes));
  LATHE_CHECK(
      DataError, std::string_view(head).starts_with(kMagic), path,
      bytes == 0 ? ": is empty" : ": is not a packed file (`lathe data prepare` makes one)");
  LATHE_CHECK(DataError, bytes >= kHeadBytes + kTailBytes, path, ": is a packed file of ", bytes,
              " bytes; it was cut off");
  const auto version = static_cast<uint32_t>(number_at(head, 8, 4));
  LATHE_CHECK(DataError, version == kPackedVersion, path, ": is a packed file of version ", version,
              "; this program reads version ", kPackedVersion);
  const auto reserved = static_cast<uint32_t>(number_at(head, 12, 4));
  LATHE_CHECK(DataError, reserved == 0, path, ": has ", reserved,
              " behind its version instead of 0");
  const std::string tail_bytes = text_of(file_, bytes - kTailBytes, kTailBytes);
  LATHE_CHECK(DataError, tail_bytes.ends_with(kTailMagic), path,
              ": does not end as a packed file; it was cut off, or something was appended");
  const Tail tail = parse_tail(tail_bytes);
  check_sizes(tail, bytes, path);
  const std::string directory =
      text_of(file_, kHeadBytes + tail.image_bytes, tail.directory_bytes());
  uint32_t crc = crc_of(directory, crc_of(head, 0));
  crc = crc_of(std::string_view(tail_bytes).substr(0, kTailCrcAt), crc);
  LATHE_CHECK(DataError, crc == tail.crc, path, ": is damaged: the checksum of its directory is ",
              crc, " instead of ", tail.crc);

  train_images_ = tail.train_images;
  info_.channels = tail.channels;
  std::string_view rest = directory;
  const std::string_view table = rest.substr(0, static_cast<size_t>(tail.images * kEntryBytes));
  rest.remove_prefix(table.size());
  const std::string_view values =
      rest.substr(0, static_cast<size_t>(tail.channels * kChannelBytes));
  rest.remove_prefix(values.size());
  info_.mean = read_doubles(values, 0);
  info_.std = read_doubles(values, 8);
  info_.class_names = read_names(rest, tail.classes, path);
  try {
    check_info(info_);
  } catch (const ValueError& error) {
    LATHE_FAIL(DataError, path, ": ", error.message());
  }
  read_table(table, tail.image_bytes);
}

void PackedFile::read_table(std::string_view table, int64_t image_bytes) {
  const auto images = static_cast<int64_t>(table.size()) / kEntryBytes;
  images_.reserve(static_cast<size_t>(images));
  int64_t offset = kHeadBytes;
  for (int64_t i = 0; i < images; ++i) {
    const auto number = [&](int64_t field) {
      return static_cast<uint32_t>(number_at(table, i * kEntryBytes + 4 * field, 4));
    };
    const Image image{offset, number(0), number(1), number(2), number(3)};
    LATHE_CHECK(DataError,
                image.height >= 1 && image.width >= 1 && image.height <= kMaxImageSide &&
                    image.width <= kMaxImageSide,
                path(), ": record ", i, " is an image of ", image.height, "x", image.width,
                "; sides are 1 to ", kMaxImageSide);
    LATHE_CHECK(DataError, image.label < info_.class_names.size(), path(), ": record ", i,
                " has label ", image.label, ", but labels are ",
                range_text<size_t>(0, info_.class_names.size() - 1));
    images_.push_back(image);
    const int64_t bytes = spec(i).pixels() + 1;
    LATHE_CHECK(DataError, bytes <= kHeadBytes + image_bytes - offset, path(), ": record ", i,
                " ends behind the ", image_bytes, " bytes of images");
    offset += bytes;
  }
  LATHE_CHECK(DataError, offset == kHeadBytes + image_bytes, path(), ": its ", images,
              " images take ", offset - kHeadBytes, " bytes, but ", image_bytes, " are declared");
  compared_ = std::make_unique<std::atomic<bool>[]>(images_.size());
}

bool PackedFile::is_sound(int64_t i, const uint8_t* pixels, int64_t count) const {
  std::atomic<bool>& compared = compared_[static_cast<size_t>(i)];
  if (compared.load(std::memory_order_relaxed)) return true;
  if (crc32c(pixels, static_cast<size_t>(count)) != images_[static_cast<size_t>(i)].crc)
    return false;
  compared.store(true, std::memory_order_relaxed);
  return true;
}

void PackedFile::fail_damaged(int64_t i) const {
  LATHE_FAIL(DataError, path(), ": record ", i, " (", spec(i).height, "x", spec(i).width,
             ", class ", info_.class_names[static_cast<size_t>(label(i))],
             ") is damaged: its bytes do not have its checksum");
}

}  // namespace lathe::data
