// ByteSource: where the reader of a file format takes its bytes from: a file, or one in memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "lathe/core/files/file.h"

namespace lathe {

/// Bytes that can be read at any offset, with a name for messages. A file is read piece by piece,
/// never mapped: if it is cut short meanwhile, that is a FileError, not a SIGBUS.
class LATHE_API ByteSource {
 public:
  /// The file `path`.
  /// throws: FileError.
  explicit ByteSource(const std::string& path) : file_(std::in_place, path), name_(path) {}
  /// The caller's bytes, which must outlive this; `name` stands for the file in messages.
  ByteSource(std::span<const std::byte> bytes, std::string_view name)
      : bytes_(bytes), name_(name) {}

  const std::string& name() const { return name_; }
  int64_t size() const { return file_ ? file_->size() : static_cast<int64_t>(bytes_.size()); }

  /// Reads exactly `bytes` bytes from `offset` on.
  /// throws: FileError, also if the source ends before that.
  void read(void* to, int64_t bytes, int64_t offset) const;

 private:
  std::optional<InputFile> file_;
  std::span<const std::byte> bytes_;
  std::string name_;
};

}  // namespace lathe
