// IDX files: header, size checks, values; and pairs of images and labels.
#include "lathe/data/images/idx.h"

#include "lathe/core/error.h"
#include "lathe/core/range_text.h"
#include "lathe/data/images/byte_stream.h"

namespace lathe::data {
namespace {

constexpr uint8_t kUnsignedByte = 8;

int64_t big_endian(const uint8_t* p) {
  return int64_t{p[0]} << 24 | int64_t{p[1]} << 16 | int64_t{p[2]} << 8 | int64_t{p[3]};
}

std::vector<int64_t> read_header(ByteStream& stream, const std::filesystem::path& path,
                                 int64_t dims) {
  uint8_t magic[4];
  read_exact(stream, magic, sizeof magic, path, "IDX header");
  LATHE_CHECK(DataError, magic[0] == 0 && magic[1] == 0, path.string(),
              ": is not an IDX file: it starts with bytes ", int64_t{magic[0]}, " ",
              int64_t{magic[1]}, " instead of 0 0");
  LATHE_CHECK(DataError, magic[2] == kUnsignedByte, path.string(), ": holds IDX type ",
              int64_t{magic[2]}, ", but only type 8 (unsigned byte) is known");
  LATHE_CHECK(DataError, magic[3] == dims, path.string(), ": has ", int64_t{magic[3]},
              " dimensions where ", dims, " are expected");
  std::vector<uint8_t> sizes(static_cast<size_t>(4 * dims));
  read_exact(stream, sizes.data(), sizes.size(), path, "IDX dimensions");
  std::vector<int64_t> shape;
  for (int64_t d = 0; d < dims; ++d) shape.push_back(big_endian(sizes.data() + 4 * d));
  return shape;
}

/// Bytes that the shape needs. No partial product exceeds `limit`, so none overflows.
int64_t declared_bytes(const std::vector<int64_t>& shape, const std::filesystem::path& path,
                       int64_t limit, const char* limit_text) {
  int64_t bytes = 1;
  for (const int64_t size : shape) {
    LATHE_CHECK(DataError, size > 0, path.string(), ": declares a dimension of size 0");
    LATHE_CHECK(DataError, bytes <= limit / size, path.string(), ": declares more than ", limit,
                " bytes (", limit_text, "; dimension of size ", size, ")");
    bytes *= size;
  }
  return bytes;
}

}  // namespace

IdxArray read_idx(const std::filesystem::path& path, int64_t dims, int64_t limit_bytes) {
  const auto stream = open_stream(path);
  IdxArray out;
  out.shape = read_header(*stream, path, dims);
  const uint64_t bound = stream->size_bound();
  const bool file_is_smaller = bound < static_cast<uint64_t>(limit_bytes);
  const int64_t limit = file_is_smaller ? static_cast<int64_t>(bound) : limit_bytes;
  const int64_t bytes = declared_bytes(
      out.shape, path, limit, file_is_smaller ? "the most that is read of this file" : "the limit");
  out.values.resize(static_cast<size_t>(bytes));
  read_exact(*stream, out.values.data(), out.values.size(), path, "IDX values");
  uint8_t extra;
  LATHE_CHECK(DataError, stream->read(&extra, 1) == 0, path.string(), ": has more bytes after the ",
              bytes, " bytes of values that its header declares");
  return out;
}

ImageSet read_idx_images(const std::filesystem::path& images, const std::filesystem::path& labels,
                         int64_t classes) {
  IdxArray y = read_idx(labels, 1);
  for (size_t i = 0; i < y.values.size(); ++i)
    LATHE_CHECK(DataError, y.values[i] < classes, labels.string(), ": record ", i, " has label ",
                int64_t{y.values[i]}, ", but labels are ", range_text<int64_t>(0, classes - 1));
  IdxArray x = read_idx(images, 3);
  LATHE_CHECK(DataError, x.shape[0] == y.shape[0], images.string(), ": has ", x.shape[0],
              " images, but ", labels.string(), " has ", y.shape[0], " labels");
  return {1, x.shape[1], x.shape[2], std::move(x.values), std::move(y.values)};
}

}  // namespace lathe::data
