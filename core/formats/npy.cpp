// Reading and writing of the values of a .npy file; its header is in npy_header.cpp.
#include "lathe/core/formats/npy.h"

#include <algorithm>
#include <bit>

#include "lathe/core/checked_size.h"
#include "lathe/core/formats/byte_source.h"
#include "lathe/core/formats/npy_header.h"
#include "lathe/core/formats/tensor_bytes.h"

namespace lathe::npy {

static_assert(std::endian::native == std::endian::little,
              "little-endian values are copied as they lie in memory");

namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr int64_t kMostHeaderBytes = 1 << 16;  // far more than a shape of kMaxDims needs

/// What comes before the literal.
struct Prefix {
  int64_t bytes = 0, literal_bytes = 0;
};

Prefix read_prefix(ReadNext next, int64_t size, std::string_view file) {
  constexpr int64_t kFirst = 10;  // to the end of the length in version 1.0
  LATHE_CHECK(DataError, size >= kFirst, file, ": ", size, " bytes are too few for a .npy file");
  unsigned char b[12];
  next(b, kFirst);
  LATHE_CHECK(DataError,
              std::equal(kMagic.begin(), kMagic.end(), b,
                         [](char want, unsigned char got) {
                           return static_cast<unsigned char>(want) == got;
                         }),
              file, ": does not begin with the mark of a .npy file");
  const int major = b[6], minor = b[7];
  LATHE_CHECK(DataError, major >= 1 && major <= 3 && minor == 0, file, ": version ", major, ".",
              minor, " of the .npy format is not 1.0, 2.0 or 3.0");
  Prefix out{.bytes = kFirst, .literal_bytes = b[8] | b[9] << 8};
  if (major > 1) {
    LATHE_CHECK(DataError, size >= kFirst + 2, file, ": ", size,
                " bytes are too few for a .npy file");
    next(b + kFirst, 2);
    out.bytes += 2;
    out.literal_bytes |= int64_t{b[10]} << 16 | int64_t{b[11]} << 24;
  }
  LATHE_CHECK(DataError, out.literal_bytes <= size - out.bytes, file, ": the header length ",
              out.literal_bytes, " does not fit a file of ", size, " bytes");
  LATHE_CHECK(DataError, out.literal_bytes <= kMostHeaderBytes, file, ": the header length ",
              out.literal_bytes, " is above the limit of ", kMostHeaderBytes);
  return out;
}

Dims reversed(Dims dims) {
  std::reverse(dims.begin(), dims.end());
  return dims;
}

/// The bytes of the values. In the product a size of 0 counts as 1, because the other sizes must be
/// sane too.   throws: DataError.
int64_t bytes_declared(const Header& header, std::string_view file) {
  CheckedSize bytes = size_of(header.dtype);
  for (const int64_t size : header.shape) bytes *= std::max<int64_t>(size, 1);
  const int64_t most = bytes.value_or_throw<DataError>(file, ": the size of ", header.dtype,
                                                       header.shape, " overflows");
  return std::ranges::find(header.shape, 0) == header.shape.end() ? most : 0;
}

Tensor read_source(const ByteSource& source) {
  int64_t at = 0;
  const auto next = [&](void* to, int64_t bytes) {
    source.read(to, bytes, at);
    at += bytes;
  };
  return read_from(next, source.size(), source.name());
}

}  // namespace

Tensor read_from(ReadNext next, int64_t size, std::string_view name) {
  const Prefix prefix = read_prefix(next, size, name);
  std::string literal(static_cast<size_t>(prefix.literal_bytes), '\0');
  next(literal.data(), prefix.literal_bytes);
  const Header header = parse_header(literal, name);
  const int64_t have = size - prefix.bytes - prefix.literal_bytes;
  const int64_t want = bytes_declared(header, name);
  LATHE_CHECK(DataError, have == want, name, ": ", header.dtype, header.shape, " takes ", want,
              " bytes but ", have, " follow the header");
  const Tensor out =
      header.fortran_order
          ? empty_strided(header.shape, reversed(contiguous_strides(reversed(header.shape))),
                          header.dtype, kCPU)
          : empty(header.shape, {.dtype = header.dtype});
  if (want == 0) return out;
  next(out.raw_data(), want);
  if (header.big_endian) swap_bytes(out.raw_data(), out.numel(), size_of(out.dtype()));
  if (header.dtype == kBool) check_bools(out.raw_data(), out.numel(), name);
  return out;
}

Parts parts_of(const Tensor& tensor, std::string_view name) {
  LATHE_CHECK(DTypeError, tensor.dtype() != kBF16, name,
              ": NumPy has no bf16; convert it with to(kF32) first (tensor: ", tensor, ")");
  const Tensor transposed =
      alias(tensor, reversed(tensor.shape()), reversed(tensor.strides()), tensor.offset());
  const bool fortran =
      tensor.device().is_cpu() && !tensor.is_contiguous() && transposed.is_contiguous();
  return {
      format_header({.dtype = tensor.dtype(), .fortran_order = fortran, .shape = tensor.shape()}),
      fortran ? transposed : dense_on_cpu(tensor)};
}

Tensor read(const std::string& path) { return read_source(ByteSource(path)); }

Tensor parse(std::span<const std::byte> bytes, std::string_view name) {
  return read_source(ByteSource(bytes, name));
}

void write(const std::string& path, const Tensor& tensor) {
  const Parts parts = parts_of(tensor, path);
  AtomicFile file(path);
  file.write(parts.header);
  file.write(bytes_of(parts.values));
  file.commit();
}

}  // namespace lathe::npy
