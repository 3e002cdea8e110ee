// Zip archives, the container of .npz and PyTorch's .pth files. Our own: libzip accepts what we
// must refuse (overlapping entries, sizes that no data can reach), and would be one more library
// for two records of fixed fields. Defined in zip_reader.cpp and zip_writer.cpp.
// ref: PKWARE, APPNOTE.TXT 6.3.10, sections 4.3 and 4.5.3 (zip64).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/files/file.h"
#include "lathe/core/formats/byte_source.h"
#include "lathe/core/formats/deflate.h"

namespace lathe::zip {

enum class Method : uint16_t { kStored = 0, kDeflated = 8 };

/// One file of an archive, as the central directory describes it.
struct Entry {
  std::string name;
  Method method = Method::kStored;
  uint32_t crc = 0;
  int64_t packed_bytes = 0;    // in the archive
  int64_t bytes = 0;           // of the content; checked against what packed_bytes can give
  int64_t begin = 0, end = 0;  // of all that belongs to the entry, from the archive's start
};

/// The directory of an archive, read and checked as a whole: signatures; zip64 records; ranges,
/// which must lie inside the file and not overlap; declared sizes. Deflated entries may declare
/// together at most 64 MiB plus 32 times their size in the file (inflate_limit), so that a small
/// file cannot cost its reader much memory or time. Allocates at most about four times the
/// directory's own size. Refuses entries that are encrypted or compressed by another method, names
/// that appear twice, and archives in several parts.
class LATHE_API Archive {
 public:
  /// `source` must outlive this.
  /// throws: FileError; DataError that names the file, the entry and the values that do not fit.
  explicit Archive(const ByteSource& source);

  const ByteSource& source() const { return source_; }
  const std::vector<Entry>& entries() const { return entries_; }  // in the directory's order
  /// Null if there is none.
  const Entry* find(std::string_view name) const;

 private:
  const ByteSource& source_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> by_name_;
};

/// Reads the content of an entry from front to back.
class LATHE_API EntryReader {
 public:
  /// Both must outlive this.
  /// throws: FileError; DataError if the entry's own header does not agree with the directory, or
  /// if the entry is compressed and the build has no zlib.
  EntryReader(const Archive& archive, const Entry& entry);
  EntryReader(const EntryReader&) = delete;
  EntryReader& operator=(const EntryReader&) = delete;

  /// Reads the next `bytes` bytes.
  /// throws: FileError; DataError, also if fewer are left.
  void read(void* to, int64_t bytes);
  int64_t left() const { return left_; }

  /// Call it when all is read.
  /// throws: DataError if bytes are left, or if the CRC is not that of the content.
  void finish();

 private:
  std::span<const std::byte> next_piece();

  const ByteSource& source_;
  const Entry& entry_;
  std::string what_;  // "x.npz: entry \"a.npy\""
  int64_t at_ = 0;    // offset of the next packed byte in the archive
  int64_t packed_left_ = 0, left_ = 0;
  uint32_t crc_ = 0;
  std::vector<std::byte> piece_;
  std::unique_ptr<Inflater> inflater_;
};

/// The whole content of an entry, up to `limit_bytes`.
/// throws: as EntryReader; DataError above the limit.
LATHE_API std::string read_all(const Archive& archive, const Entry& entry, int64_t limit_bytes);

struct WriteOptions {
  // Sizes and offsets from here on take zip64 fields; tests lower it.
  int64_t zip64_from = 0xffffffff;
};

/// An archive that becomes no file: its bytes, in a string that is empty and outlives the Writer.
struct InMemory {
  std::string& bytes;
};

/// Writes an archive: a file through AtomicFile, or one in memory. The same entries give the same
/// bytes: no time is stored.
class LATHE_API Writer {
 public:
  /// throws: FileError.
  explicit Writer(const std::string& path, const WriteOptions& options = {});
  explicit Writer(InMemory to, const WriteOptions& options = {});

  /// Adds a file whose content is the parts one after another. Content that deflate would make
  /// larger is stored. The caller makes sure that names differ.
  /// throws: FileError; ValueError for a name that is empty, contains a NUL or has more than 65,535
  /// bytes, and for kDeflated in a build without zlib.
  void add(std::string_view name, std::span<const std::string_view> parts,
           Method method = Method::kStored);

  /// Writes the directory and makes the file the target's. Call it once, last.
  /// throws: FileError.
  void commit();

 private:
  void write(std::string_view bytes);

  std::optional<AtomicFile> file_;
  std::string* memory_ = nullptr;  // without a file
  WriteOptions options_;
  int64_t at_ = 0;  // bytes written
  int64_t entries_ = 0;
  std::string directory_;
};

}  // namespace lathe::zip
