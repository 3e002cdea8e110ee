// Plain files as byte streams, and the choice between them and gzip (byte_stream_zlib.cpp).
#include "lathe/data/images/byte_stream.h"

#include <algorithm>

#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/files/paths.h"

namespace lathe::data {
namespace {

class FileStream final : public ByteStream {
 public:
  explicit FileStream(const std::filesystem::path& path) : file_(path.string()) {}

  size_t read(void* out, size_t bytes) override {
    const int64_t count = std::min(static_cast<int64_t>(bytes), file_.size() - at_);
    file_.read(out, count, at_);
    at_ += count;
    return static_cast<size_t>(count);
  }

  uint64_t size_bound() const override { return static_cast<uint64_t>(file_.size()); }
  bool size_is_known() const override { return true; }

  void rewind() { at_ = 0; }

 private:
  InputFile file_;
  int64_t at_ = 0;
};

}  // namespace

std::unique_ptr<ByteStream> open_stream(const std::filesystem::path& path) {
  // Checked before it is opened, because opening a pipe would wait for its writer.
  const PathKind kind = path_kind(path);
  LATHE_CHECK(
      FileError, kind != PathKind::kFolder && kind != PathKind::kOther, path.string(),
      kind == PathKind::kFolder ? ": is a directory, not a file" : ": is not a regular file");
  auto file = std::make_unique<FileStream>(path);
  unsigned char magic[2] = {0, 0};
  const bool gzip = file->read(magic, 2) == 2 && magic[0] == 0x1f && magic[1] == 0x8b;
  file->rewind();
  if (gzip) return inflate(std::move(file), path);
  return file;
}

void read_exact(ByteStream& stream, void* out, size_t bytes, const std::filesystem::path& path,
                const char* what) {
  const size_t got = stream.read(out, bytes);
  LATHE_CHECK(DataError, got == bytes, path.string(), ": ends after ", got, " bytes of ", what,
              ", which needs ", bytes);
}

}  // namespace lathe::data
