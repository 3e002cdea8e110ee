// Images as tensors: reading and writing files, and grids of images.
//   const Tensor x = image::read("cat.jpg").to(kF32) / 255;  // [3,H,W]
//   image::write("samples.png", image::make_grid(samples));
#pragma once

#include <cstdint>

#include "lathe/core/tensor.h"

namespace lathe::image {

/// Reads a JPEG, PNG or WebP file, whatever its name.   → u8 [3,H,W] on the CPU
/// The pixels equal those of Pillow's Image.open(path).convert("RGB"): grey is repeated three
/// times, an alpha channel is dropped.
/// throws: FileError; DataError in these cases:
///   - the file is damaged
///   - the image has more than 100,000,000 pixels (for JPEG both sides are rounded up to a multiple
///     of 32), or an extremely long side
///   - Lathe was built without the library for this format
LATHE_API Tensor read(const std::string& path);

struct WriteOptions {
  int quality = 90;  // of JPEG, 1 to 100; colours are not subsampled
};

/// The bytes that write() writes into a file with this ending.
///   ending  ".png", ".jpg" or ".jpeg"
/// throws: what write() throws, except for FileError.
LATHE_API std::string encode(const Tensor& x, const std::string& ending,
                             const WriteOptions& options = {});

/// Writes x in the format that the name ends with: .png, .jpg or .jpeg.
///   x  [3,H,W] (red, green, blue), [1,H,W] or [H,W] (grey), any device and strides: u8, or
///      floating in [0,1] for black to white; values outside are clamped, and NaN is black
/// An existing file is replaced when the new one is complete, so the file is never incomplete.
/// throws: DTypeError, FileError, and
///   - ShapeError for another shape, no pixels, a side above 65,500 or more than 4 GiB
///   - ValueError for an unknown ending or a quality outside 1 to 100
///   - DataError if Lathe was built without the library for this format
LATHE_API void write(const std::string& path, const Tensor& x, const WriteOptions& options = {});

struct GridOptions {
  int64_t columns = 8;  // images in a row; fewer images make a narrower grid
  int64_t pad = 2;      // pixels around every image
  double value = 0;     // of these pixels
};

/// Puts images side by side into one large image, row by row.
///   images  [N,C,H,W], N > 0
///   →       [C, rows*(H+pad)+pad, columns*(W+pad)+pad], of the images' dtype and device
/// grad: none.
/// throws: ShapeError unless images is [N,C,H,W] with N > 0, or if the grid is too large;
/// ValueError if columns < 1 or pad < 0.
LATHE_API Tensor make_grid(const Tensor& images, const GridOptions& options = {});

}  // namespace lathe::image
