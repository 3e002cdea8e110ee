// Reading of zip archives: the directory with all its checks, and the content of entries.
#include <algorithm>
#include <numeric>

#include "lathe/core/checked_size.h"
#include "lathe/core/error.h"
#include "lathe/core/files/crc32.h"
#include "lathe/core/formats/safetensors_header.h"
#include "lathe/core/formats/zip.h"
#include "lathe/core/formats/zip_records.h"

namespace lathe::zip {

namespace {

using safetensors::in_quotes;

constexpr int64_t kLongestComment = 0xffff;
constexpr size_t kPieceBytes = size_t{1} << 16;

/// Where the central directory is.
struct Directory {
  int64_t begin = 0, bytes = 0, entries = 0;
};

std::string read_text(const ByteSource& source, int64_t at, int64_t bytes) {
  std::string text(static_cast<size_t>(bytes), '\0');
  source.read(text.data(), bytes, at);
  return text;
}

/// A 64-bit field as a size.   throws: DataError beyond int64.
int64_t size_at(std::string_view text, int64_t at, const std::string& file) {
  const uint64_t value = number_at(text, at, 8);
  LATHE_CHECK(DataError, std::in_range<int64_t>(value), file, ": a zip64 field holds ", value);
  return static_cast<int64_t>(value);
}

Directory find_directory(const ByteSource& source) {
  const std::string& file = source.name();
  LATHE_CHECK(DataError, source.size() >= kEndBytes, file, ": ", source.size(),
              " bytes are too few for a zip archive");
  // The end record is the last record; a comment of any length may follow it.
  const int64_t tail_bytes = std::min(source.size(), kEndBytes + kLongestComment);
  const int64_t tail_begin = source.size() - tail_bytes;
  const std::string tail = read_text(source, tail_begin, tail_bytes);
  int64_t at = tail_bytes - kEndBytes;
  while (at >= 0 &&
         !(number_at(tail, at, 4) == kEndMark &&
           number_at(tail, at + 20, 2) == static_cast<uint64_t>(tail_bytes - kEndBytes - at))) {
    --at;
  }
  LATHE_CHECK(DataError, at >= 0, file,
              ": is not a zip archive, or is cut short: it has no end record");
  Directory out{.begin = static_cast<int64_t>(number_at(tail, at + 16, 4)),
                .bytes = static_cast<int64_t>(number_at(tail, at + 12, 4)),
                .entries = static_cast<int64_t>(number_at(tail, at + 10, 2))};
  uint64_t parts = number_at(tail, at + 4, 2) + number_at(tail, at + 6, 2);
  uint64_t here = number_at(tail, at + 8, 2);
  int64_t end = tail_begin + at;  // of the directory

  const int64_t locator = at - kLocator64Bytes;
  if (locator >= 0 && number_at(tail, locator, 4) == kLocator64Mark) {
    end = size_at(tail, locator + 8, file);
    LATHE_CHECK(DataError, end <= tail_begin + locator - kEnd64Bytes, file,
                ": its zip64 end record at byte ", end, " does not fit");
    const std::string record = read_text(source, end, kEnd64Bytes);
    LATHE_CHECK(DataError, number_at(record, 0, 4) == kEnd64Mark, file,
                ": there is no zip64 end record at byte ", end);
    parts = number_at(record, 16, 4) + number_at(record, 20, 4) + number_at(tail, locator + 4, 4);
    here = number_at(record, 24, 8);
    out = {.begin = size_at(record, 48, file),
           .bytes = size_at(record, 40, file),
           .entries = size_at(record, 32, file)};
  }
  LATHE_CHECK(DataError, parts == 0 && here == static_cast<uint64_t>(out.entries), file,
              ": is one part of a zip archive in several");
  LATHE_CHECK(DataError, out.bytes <= end && out.begin == end - out.bytes, file,
              ": its directory of ", out.bytes, " bytes from byte ", out.begin,
              " does not end where its end record begins, at byte ", end);
  LATHE_CHECK(DataError, out.entries <= out.bytes / kCentralBytes, file, ": its directory of ",
              out.bytes, " bytes cannot hold ", out.entries, " entries");
  return out;
}

/// Reads the sizes that did not fit 32 bits from the zip64 field among the extra fields.
void read_zip64(std::string_view extra, std::span<int64_t*> wanted, const std::string& what) {
  if (wanted.empty()) return;
  for (size_t at = 0; at + 4 <= extra.size();) {
    const uint64_t id = number_at(extra, static_cast<int64_t>(at), 2);
    const uint64_t bytes = number_at(extra, static_cast<int64_t>(at) + 2, 2);
    at += 4;
    if (bytes > extra.size() - at) break;
    if (id == kZip64Extra && bytes >= wanted.size() * 8) {
      for (size_t i = 0; i < wanted.size(); ++i) {
        *wanted[i] = size_at(extra, static_cast<int64_t>(at + 8 * i), what);
      }
      return;
    }
    at += bytes;
  }
  LATHE_FAIL(DataError, what, " has no zip64 field for its ", wanted.size(), " long sizes");
}

/// The entry whose record begins at `at`; moves `at` behind the record.
Entry read_entry(std::string_view directory, int64_t& at, const std::string& file) {
  const auto left = [&] { return static_cast<int64_t>(directory.size()) - at; };
  LATHE_CHECK(DataError, left() >= kCentralBytes && number_at(directory, at, 4) == kCentralMark,
              file, ": its directory is damaged ", at, " bytes from its start");
  const auto field = [&](int64_t offset, int bytes) {
    return number_at(directory, at + offset, bytes);
  };
  const auto name_bytes = static_cast<int64_t>(field(28, 2));
  const auto extra_bytes = static_cast<int64_t>(field(30, 2));
  // The last summand is the length of the comment.
  const int64_t record =
      kCentralBytes + name_bytes + extra_bytes + static_cast<int64_t>(field(32, 2));
  LATHE_CHECK(DataError, record <= left(), file, ": its directory is damaged ", at,
              " bytes from its start");
  const auto text = directory.substr(static_cast<size_t>(at + kCentralBytes));
  Entry out;
  out.name = text.substr(0, static_cast<size_t>(name_bytes));
  const std::string what = concat(file, ": entry ", in_quotes(out.name));
  LATHE_CHECK(DataError, !(field(8, 2) & kEncryptedFlag), what, " is encrypted");
  const uint64_t method = field(10, 2);
  out.method = static_cast<Method>(method);
  LATHE_CHECK(DataError, out.method == Method::kStored || out.method == Method::kDeflated, what,
              " is compressed by method ", method, "; 0 (stored) and 8 (deflate) can be read");
  out.crc = static_cast<uint32_t>(field(16, 4));
  out.packed_bytes = static_cast<int64_t>(field(20, 4));
  out.bytes = static_cast<int64_t>(field(24, 4));
  out.begin = static_cast<int64_t>(field(42, 4));
  std::vector<int64_t*> wanted;
  for (int64_t* size : {&out.bytes, &out.packed_bytes, &out.begin}) {
    if (*size == kIn64) wanted.push_back(size);
  }
  read_zip64(text.substr(static_cast<size_t>(name_bytes), static_cast<size_t>(extra_bytes)), wanted,
             what);
  at += record;
  return out;
}

/// Checks that entries do not overlap and that each has room for what it declares.
void check_ranges(std::vector<Entry>& entries, int64_t directory, const std::string& file) {
  std::vector<uint32_t> order(entries.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::sort(order, {}, [&](uint32_t i) { return entries[i].begin; });
  CheckedSize inflated = 0;
  int64_t packed = 0;  // of the deflated entries, which lie in the file one behind the other
  for (size_t i = 0; i < order.size(); ++i) {
    Entry& entry = entries[order[i]];
    const std::string what = concat(file, ": entry ", in_quotes(entry.name));
    entry.end = i + 1 < order.size() ? entries[order[i + 1]].begin : directory;
    const CheckedSize needed =
        CheckedSize(entry.packed_bytes) + kLocalBytes + static_cast<int64_t>(entry.name.size());
    LATHE_CHECK(DataError,
                needed.value_or_throw<DataError>(what, " is too large") <= entry.end - entry.begin,
                what, " of ", entry.packed_bytes, " bytes does not fit between byte ", entry.begin,
                " and byte ", entry.end, ", where the next one begins");
    if (entry.method == Method::kStored) {
      LATHE_CHECK(DataError, entry.bytes == entry.packed_bytes, what, " is stored in ",
                  entry.packed_bytes, " bytes but declares ", entry.bytes);
    } else {
      LATHE_CHECK(DataError, entry.bytes / kBestDeflateRatio <= entry.packed_bytes, what,
                  " declares ", entry.bytes, " bytes, more than ", entry.packed_bytes,
                  " deflated ones can hold");
      inflated += entry.bytes;
      packed += entry.packed_bytes;
    }
  }
  const int64_t total = inflated.value_or_throw<DataError>(file, ": its entries are too large");
  LATHE_CHECK(DataError, total <= inflate_limit(packed), file, ": its deflated entries declare ",
              total, " bytes; of the ", packed, " that they take at most ", inflate_limit(packed),
              " are read (64 MiB and 32 times as many): save it without compression");
}

}  // namespace

Archive::Archive(const ByteSource& source) : source_(source) {
  const Directory directory = find_directory(source);
  const std::string text = read_text(source, directory.begin, directory.bytes);
  entries_.reserve(static_cast<size_t>(directory.entries));
  int64_t at = 0;
  for (int64_t i = 0; i < directory.entries; ++i) {
    entries_.push_back(read_entry(text, at, source.name()));
  }
  LATHE_CHECK(DataError, at == directory.bytes, source.name(), ": its directory has ",
              directory.bytes, " bytes, but its ", directory.entries, " entries take ", at);
  check_ranges(entries_, directory.begin, source.name());
  by_name_.resize(entries_.size());
  std::iota(by_name_.begin(), by_name_.end(), 0u);
  const auto name_of = [&](uint32_t i) -> const std::string& { return entries_[i].name; };
  std::ranges::sort(by_name_, {}, name_of);
  const auto twice = std::ranges::adjacent_find(by_name_, {}, name_of);
  if (twice != by_name_.end()) {
    LATHE_FAIL(DataError, source.name(), ": entry ", in_quotes(name_of(*twice)), " appears twice");
  }
}

const Entry* Archive::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(
      by_name_, name, {}, [&](uint32_t i) { return std::string_view(entries_[i].name); });
  if (found == by_name_.end() || entries_[*found].name != name) return nullptr;
  return &entries_[*found];
}

EntryReader::EntryReader(const Archive& archive, const Entry& entry)
    : source_(archive.source()),
      entry_(entry),
      what_(concat(source_.name(), ": entry ", in_quotes(entry.name))),
      packed_left_(entry.packed_bytes),
      left_(entry.bytes) {
  const auto name_bytes = static_cast<int64_t>(entry.name.size());
  const std::string local = read_text(source_, entry.begin, kLocalBytes + name_bytes);
  LATHE_CHECK(DataError,
              number_at(local, 0, 4) == kLocalMark &&
                  number_at(local, 8, 2) == static_cast<uint64_t>(entry.method) &&
                  number_at(local, 26, 2) == static_cast<uint64_t>(name_bytes) &&
                  std::string_view(local).substr(kLocalBytes) == entry.name,
              what_, " has a header at byte ", entry.begin, " that is not the directory's");
  at_ = entry.begin + kLocalBytes + name_bytes + static_cast<int64_t>(number_at(local, 28, 2));
  LATHE_CHECK(DataError, entry.packed_bytes <= entry.end - at_, what_, " of ", entry.packed_bytes,
              " bytes does not fit between byte ", at_, " and byte ", entry.end);
  if (entry.method == Method::kDeflated) inflater_ = inflate([&] { return next_piece(); }, what_);
}

std::span<const std::byte> EntryReader::next_piece() {
  piece_.resize(std::min(kPieceBytes, static_cast<size_t>(packed_left_)));
  const auto bytes = static_cast<int64_t>(piece_.size());
  source_.read(piece_.data(), bytes, at_);
  at_ += bytes;
  packed_left_ -= bytes;
  return piece_;
}

void EntryReader::read(void* to, int64_t bytes) {
  LATHE_CHECK(DataError, bytes <= left_, what_, " ends ", bytes - left_, " bytes early");
  if (inflater_) {
    const size_t got = inflater_->read(to, static_cast<size_t>(bytes));
    LATHE_CHECK(DataError, got == static_cast<size_t>(bytes), what_, " declares ", entry_.bytes,
                " bytes but holds ", entry_.bytes - left_ + static_cast<int64_t>(got));
  } else {
    source_.read(to, bytes, at_);
    at_ += bytes;
  }
  left_ -= bytes;
  crc_ = crc32(to, static_cast<size_t>(bytes), crc_);
}

void EntryReader::finish() {
  LATHE_CHECK(DataError, left_ == 0, what_, " has ", left_, " bytes behind its content");
  LATHE_CHECK(DataError, !inflater_ || inflater_->at_end(), what_, " holds more than the ",
              entry_.bytes, " bytes that it declares");
  LATHE_CHECK(DataError, crc_ == entry_.crc, what_, " has the CRC-32 ", crc_,
              " but the directory says ", entry_.crc, " (damaged)");
}

std::string read_all(const Archive& archive, const Entry& entry, int64_t limit_bytes) {
  LATHE_CHECK(DataError, entry.bytes <= limit_bytes, archive.source().name(), ": entry ",
              in_quotes(entry.name), " has ", entry.bytes, " bytes, more than the limit of ",
              limit_bytes);
  std::string out(static_cast<size_t>(entry.bytes), '\0');
  EntryReader reader(archive, entry);
  reader.read(out.data(), entry.bytes);
  reader.finish();
  return out;
}

}  // namespace lathe::zip
