// Plain files as byte streams; gzip is in inflate_zlib.cpp.
#include "lathe/data/byte_stream.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "lathe/core/error.h"

namespace lathe::data {
namespace {

class FileStream final : public ByteStream {
 public:
  explicit FileStream(const std::filesystem::path& path) : path_(path) {
    std::error_code error;
    const auto status = std::filesystem::status(path, error);
    LATHE_CHECK(FileError, !std::filesystem::is_directory(status), path.string(),
                ": is a directory, not a file");
    LATHE_CHECK(FileError, !std::filesystem::exists(status) || is_regular_file(status),
                path.string(),
                ": is not a regular file");  // opening a pipe would wait for its writer
    file_.reset(std::fopen(path.c_str(), "rb"));
    LATHE_CHECK(FileError, file_ != nullptr, path.string(),
                ": cannot be opened: ", std::strerror(errno));
    size_ = std::filesystem::file_size(path, error);
    LATHE_CHECK(FileError, !error, path.string(), ": size unknown: ", error.message());
  }

  size_t read(void* out, size_t bytes) override {
    const size_t got = std::fread(out, 1, bytes, file_.get());
    LATHE_CHECK(FileError, got == bytes || std::ferror(file_.get()) == 0, path_.string(),
                ": reading failed: ", std::strerror(errno));
    return got;
  }

  uint64_t size_bound() const override { return size_; }

  void rewind() { std::rewind(file_.get()); }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::FILE, Close> file_;
  uint64_t size_ = 0;
};

}  // namespace

std::unique_ptr<ByteStream> open_stream(const std::filesystem::path& path) {
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
