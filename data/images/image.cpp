// image::read, write and make_grid. Contracts: image.h.
#include "lathe/data/images/image.h"

#include <algorithm>
#include <cctype>
#include <cstring>
#include <string>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/ceil_div.h"
#include "lathe/core/checked_size.h"
#include "lathe/core/files/file.h"
#include "lathe/data/images/encode.h"
#include "lathe/data/images/image_file.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/unary.h"
#include "lathe/ops/views.h"
#include "lathe/ops/where.h"

namespace lathe::image {

namespace {

constexpr int64_t kMaxSide = 65'500;  // of libjpeg

std::string lower_case_ending(const std::filesystem::path& path) {
  std::string text = path.extension().string();
  std::ranges::transform(text, text.begin(),
                         [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// u8 [H,W,C], dense on the CPU.
Tensor bytes_of(const char* op, const Tensor& x_in) {
  const NoGrad off;
  const Tensor x = x_in.ndim() == 2 ? unsqueeze(x_in, 0) : x_in;
  LATHE_CHECK(ShapeError, x.ndim() == 3 && (x.dim(0) == 1 || x.dim(0) == 3), op,
              ": x must be [3,H,W], [1,H,W] or [H,W] (x: ", x_in, ")");
  LATHE_CHECK(ShapeError, x.numel() > 0 && std::max(x.dim(1), x.dim(2)) <= kMaxSide, op,
              ": the sides must be from 1 to ", kMaxSide, " pixels (x: ", x_in, ")");
  LATHE_CHECK(DTypeError, x.dtype() == kU8 || is_floating(x.dtype()), op,
              ": x must be u8 or floating (x: ", x_in, ")");
  LATHE_CHECK(ShapeError, x.numel() < (int64_t{1} << 32), op,
              ": more than 4 GiB of pixels (x: ", x_in, ")");
  Tensor values = to_device(x, kCPU);
  if (values.dtype() != kU8) {
    const Tensor wide = cast(values, is_half(values.dtype()) ? kF32 : values.dtype());
    const Tensor known = masked_fill(wide, ne(wide, wide), 0);  // NaN is not itself
    values = cast(add(mul(clamp(known, 0, 1), 255), 0.5), kU8);
  }
  return contiguous(permute(values, {1, 2, 0}));
}

}  // namespace

Tensor read(const std::string& path) {
  data::ImageFile file;
  file.open(path, {});
  const data::ImageSpec spec = file.decode(1);
  const Tensor x = empty({spec.channels, spec.height, spec.width}, {.dtype = kU8});
  std::memcpy(x.data<uint8_t>(), file.pixels(), static_cast<size_t>(spec.pixels()));
  return x;
}

/// The bytes of the file `name`, of the format that it ends with. Errors say that `op` failed.
static std::string encoded(const char* op, const std::string& name, const Tensor& x,
                           const WriteOptions& options) {
  const std::string ending = lower_case_ending(name);
  const bool is_jpeg = ending == ".jpg" || ending == ".jpeg";
  LATHE_CHECK(ValueError, is_jpeg || ending == ".png", op, ": ", name,
              " must end in .png, .jpg or .jpeg");
  LATHE_CHECK(ValueError, options.quality >= 1 && options.quality <= 100, op,
              ": quality must be in [1,100], got ", options.quality);
  const Tensor bytes = bytes_of(op, x);
  const data::Pixels pixels{bytes.data<uint8_t>(), static_cast<int>(bytes.dim(0)),
                            static_cast<int>(bytes.dim(1)), static_cast<int>(bytes.dim(2))};
  return is_jpeg ? data::encode_jpeg(pixels, name, options.quality)
                 : data::encode_png(pixels, name);
}

std::string encode(const Tensor& x, const std::string& ending, const WriteOptions& options) {
  return encoded("image::encode", "image" + ending, x, options);
}

void write(const std::string& path, const Tensor& x, const WriteOptions& options) {
  write_file_atomic(path, encoded("image::write", path, x, options));
}

Tensor make_grid(const Tensor& images, const GridOptions& options) {
  const NoGrad off;
  LATHE_CHECK(ShapeError, images.ndim() == 4 && images.dim(0) > 0,
              "make_grid: images must be [N,C,H,W], N > 0 (images: ", images, ")");
  LATHE_CHECK(ValueError, options.columns >= 1 && options.pad >= 0,
              "make_grid: columns must be positive and pad not negative, got ", options.columns,
              " and ", options.pad);
  const int64_t count = images.dim(0), pad = options.pad;
  const int64_t columns = std::min(options.columns, count), rows = ceil_div(count, columns);
  const int64_t height = images.dim(2), width = images.dim(3);
  const auto side = [&](int64_t many, int64_t size) {
    return ((CheckedSize(size) + pad) * many + pad)
        .value_or_throw<ShapeError>("make_grid: ", many, " images of ", size, " with pad ", pad,
                                    " are too large (images: ", images, ")");
  };
  const Tensor grid =
      full({images.dim(1), side(rows, height), side(columns, width)}, Scalar(options.value),
           {.dtype = images.dtype(), .device = images.device()});
  for (int64_t i = 0; i < count; ++i) {
    const int64_t top = i / columns * (height + pad) + pad;
    const int64_t left = i % columns * (width + pad) + pad;
    grid.slice(1, top, top + height).slice(2, left, left + width).copy_(images[i]);
  }
  return grid;
}

}  // namespace lathe::image
