// Writing of zip archives: the record before each entry, the directory and its end, without clock.
#include <limits>

#include "lathe/core/error.h"
#include "lathe/core/files/crc32.h"
#include "lathe/core/formats/safetensors_header.h"
#include "lathe/core/formats/zip.h"
#include "lathe/core/formats/zip_records.h"

namespace lathe::zip {

namespace {

constexpr int kVersion = 20, kVersion64 = 45;      // needed to read; with zip64 fields
constexpr uint64_t kNewYear1980 = 1 << 5 | 1;      // the earliest date of MS-DOS
constexpr uint64_t kUnix = 3 << 8;                 // the writer's system
constexpr uint64_t kRegularFile = 0100644u << 16;  // the file's mode on that system
constexpr int64_t kMost16 = 0xffff;

/// The fields that both records of an entry share: "version needed" to the extra field's length.
void append_common(std::string& out, const Entry& entry, bool is64, int64_t extra_bytes) {
  append_number(out, static_cast<uint64_t>(is64 ? kVersion64 : kVersion), 2);
  append_number(out, kUtf8Flag, 2);
  append_number(out, static_cast<uint64_t>(entry.method), 2);
  append_number(out, 0, 2);  // time
  append_number(out, kNewYear1980, 2);
  append_number(out, entry.crc, 4);
  append_number(out, is64 ? kIn64 : static_cast<uint64_t>(entry.packed_bytes), 4);
  append_number(out, is64 ? kIn64 : static_cast<uint64_t>(entry.bytes), 4);
  append_number(out, entry.name.size(), 2);
  append_number(out, static_cast<uint64_t>(extra_bytes), 2);
}

/// The zip64 field with these sizes; empty if there are none.
std::string zip64_extra(std::initializer_list<int64_t> sizes) {
  std::string out;
  append_number(out, kZip64Extra, 2);
  append_number(out, sizes.size() * 8, 2);
  for (const int64_t size : sizes) append_number(out, static_cast<uint64_t>(size), 8);
  return out;
}

}  // namespace

Writer::Writer(const std::string& path, const WriteOptions& options)
    : file_(std::in_place, path), options_(options) {}

Writer::Writer(InMemory to, const WriteOptions& options) : memory_(&to.bytes), options_(options) {}

void Writer::write(std::string_view bytes) {
  if (file_) {
    file_->write(bytes);
  } else {
    memory_->append(bytes);
  }
  at_ += static_cast<int64_t>(bytes.size());
}

void Writer::add(std::string_view name, std::span<const std::string_view> parts, Method method) {
  LATHE_CHECK(ValueError,
              !name.empty() && static_cast<int64_t>(name.size()) <= kMost16 &&
                  name.find('\0') == std::string_view::npos,
              "zip: ", safetensors::in_quotes(name), " cannot be an entry's name");
  Entry entry{.name = std::string(name), .method = method, .begin = at_};
  for (const std::string_view part : parts) {
    entry.crc = crc32(part.data(), part.size(), entry.crc);
    entry.bytes += static_cast<int64_t>(part.size());
  }
  std::string packed;
  if (method == Method::kDeflated) packed = deflate(parts);
  if (method == Method::kDeflated && static_cast<int64_t>(packed.size()) >= entry.bytes) {
    entry.method = Method::kStored;
  }
  const bool stored = entry.method == Method::kStored;
  entry.packed_bytes = stored ? entry.bytes : static_cast<int64_t>(packed.size());

  const bool is64 = entry.bytes >= options_.zip64_from || entry.packed_bytes >= options_.zip64_from;
  const bool far = entry.begin >= options_.zip64_from;
  std::string extra = is64 ? zip64_extra({entry.bytes, entry.packed_bytes}) : "";
  std::string local;
  append_number(local, kLocalMark, 4);
  append_common(local, entry, is64, static_cast<int64_t>(extra.size()));
  write(local + entry.name + extra);
  if (stored) {
    for (const std::string_view part : parts) write(part);
  } else {
    write(packed);
  }

  if (far) {
    extra = is64 ? zip64_extra({entry.bytes, entry.packed_bytes, entry.begin})
                 : zip64_extra({entry.begin});
  }
  append_number(directory_, kCentralMark, 4);
  append_number(directory_, kUnix | kVersion64, 2);
  append_common(directory_, entry, is64, static_cast<int64_t>(extra.size()));
  append_number(directory_, 0, 2 + 2 + 2);  // comment, part, internal attributes
  append_number(directory_, kRegularFile, 4);
  append_number(directory_, far ? kIn64 : static_cast<uint64_t>(entry.begin), 4);
  directory_ += entry.name + extra;
  ++entries_;
}

void Writer::commit() {
  const auto begin = static_cast<uint64_t>(at_), bytes = static_cast<uint64_t>(directory_.size()),
             count = static_cast<uint64_t>(entries_);
  write(directory_);
  std::string end;
  const bool is64 = at_ >= options_.zip64_from || entries_ >= kMost16;
  if (is64) {
    append_number(end, kEnd64Mark, 4);
    append_number(end, kEnd64Bytes - 12, 8);  // the bytes that follow this field
    append_number(end, kUnix | kVersion64, 2);
    append_number(end, kVersion64, 2);
    append_number(end, 0, 4 + 4);  // this part, the directory's part
    for (const uint64_t value : {count, count, bytes, begin}) append_number(end, value, 8);
    append_number(end, kLocator64Mark, 4);
    append_number(end, 0, 4);
    append_number(end, static_cast<uint64_t>(at_), 8);
    append_number(end, 1, 4);  // parts
  }
  append_number(end, kEndMark, 4);
  append_number(end, 0, 2 + 2);
  for (int i = 0; i < 2; ++i) append_number(end, is64 ? kMost16 : count, 2);
  append_number(end, is64 ? kIn64 : bytes, 4);
  append_number(end, is64 ? kIn64 : begin, 4);
  append_number(end, 0, 2);  // comment
  write(end);
  if (file_) file_->commit();
}

}  // namespace lathe::zip
