// Gzip streams through zlib. Stricter than gzread(): a truncated member is an error, and so are
// other bytes after the last one. Contract: byte_stream.h.
#include <zlib.h>

#include <algorithm>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/formats/deflate.h"
#include "lathe/data/images/byte_stream.h"

namespace lathe::data {
namespace {

constexpr size_t kInputBytes = size_t{1} << 16;
constexpr int kGzipOnly = 16 + MAX_WBITS;

class InflateStream final : public ByteStream {
 public:
  InflateStream(std::unique_ptr<ByteStream> compressed, const std::filesystem::path& path)
      : compressed_(std::move(compressed)),
        path_(path),
        packed_bytes_(static_cast<int64_t>(compressed_->size_bound())),
        input_(kInputBytes) {
    LATHE_CHECK(OutOfMemoryError, inflateInit2(&z_, kGzipOnly) == Z_OK, path_.string(),
                ": zlib cannot allocate its window");
  }
  ~InflateStream() override { inflateEnd(&z_); }
  InflateStream(const InflateStream&) = delete;
  InflateStream& operator=(const InflateStream&) = delete;

  size_t read(void* out, size_t bytes) override {
    size_t done = 0;
    while (done < bytes && !ended_) {
      const size_t step = std::min(bytes - done, size_t{1} << 30);  // zlib counts in 32 bits
      z_.next_out = static_cast<Bytef*>(out) + done;
      z_.avail_out = static_cast<uInt>(step);
      inflate_some();
      done += step - z_.avail_out;
    }
    return done;
  }

  uint64_t size_bound() const override {
    return static_cast<uint64_t>(inflate_limit(packed_bytes_));
  }
  bool size_is_known() const override { return false; }

 private:
  void inflate_some() {
    const bool have_input = refill();
    if (at_member_start_) {
      if (members_ > 0 && !have_input) {
        ended_ = true;
        return;
      }
      at_member_start_ = false;
    }
    const uInt room = z_.avail_out;
    const int status = ::inflate(&z_, Z_NO_FLUSH);
    total_ += room - z_.avail_out;
    LATHE_CHECK(DataError, total_ <= size_bound(), path_.string(), ": its ", packed_bytes_,
                " bytes of gzip data inflate to more than ", size_bound(),
                ", the most that is read");
    if (status == Z_STREAM_END) {
      ++members_;
      at_member_start_ = true;
      inflateReset(&z_);
      return;
    }
    LATHE_CHECK(DataError, have_input || status != Z_BUF_ERROR, path_.string(),
                ": gzip data is truncated after ", total_, " inflated bytes");
    LATHE_CHECK(DataError, status == Z_OK || status == Z_BUF_ERROR, path_.string(),
                members_ > 0 ? ": other bytes follow the gzip data" : ": gzip data is corrupted",
                " after ", total_, " inflated bytes (", z_.msg != nullptr ? z_.msg : "zlib error",
                ")");
  }

  /// Whether there is compressed input left.
  bool refill() {
    if (z_.avail_in > 0) return true;
    z_.next_in = input_.data();
    z_.avail_in = static_cast<uInt>(compressed_->read(input_.data(), input_.size()));
    return z_.avail_in > 0;
  }

  std::unique_ptr<ByteStream> compressed_;
  std::filesystem::path path_;
  int64_t packed_bytes_;
  std::vector<Bytef> input_;
  z_stream z_{};
  uint64_t total_ = 0;  // inflated bytes so far
  int64_t members_ = 0;
  bool at_member_start_ = true;
  bool ended_ = false;
};

}  // namespace

std::unique_ptr<ByteStream> inflate(std::unique_ptr<ByteStream> compressed,
                                    const std::filesystem::path& path) {
  return std::make_unique<InflateStream>(std::move(compressed), path);
}

bool gzip_available() { return true; }

}  // namespace lathe::data
