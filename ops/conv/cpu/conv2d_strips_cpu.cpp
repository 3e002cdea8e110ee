// Copies between images and strips, and the sizes of strips. Contracts: conv2d_strips_cpu.h.
#include "lathe/ops/conv/cpu/conv2d_strips_cpu.h"

#include <algorithm>
#include <cstring>

#include "lathe/core/ceil_div.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/thread_pool.h"

namespace lathe::cpu {

namespace {

constexpr int64_t kCopyGrain = 64 * 1024;  // bytes

/// Columns that a filter covers.
int64_t reach(const Conv2dGeometry& g) { return g.dilation.cols * (g.S - 1) + 1; }

/// Calls f(image row, strip row) with the first byte of each row of each image, in parallel. For
/// places of a strip that hold no image, the image row is null.
template <class F>
void for_rows(const Tensor& images, const Tensor& strips, int64_t pitch, F f) {
  const int64_t pixel = images.dim(1) * static_cast<int64_t>(size_of(images.dtype()));
  const int64_t rows = images.dim(2), row = images.dim(3) * pixel;
  const int64_t per_strip = strips.dim(3) / pitch, places = strips.dim(0) * rows * per_strip;
  char* const image = static_cast<char*>(images.raw_data());
  char* const strip = static_cast<char*>(strips.raw_data());
  const int64_t grain = std::max<int64_t>(1, kCopyGrain / std::max<int64_t>(1, pitch * pixel));
  parallel_for(places, grain, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t n = i / per_strip / rows * per_strip + i % per_strip;
      const int64_t h = i / per_strip % rows;
      f(n < images.dim(0) ? image + (n * rows + h) * row : nullptr, strip + i * pitch * pixel,
        static_cast<size_t>(row), static_cast<size_t>(pitch * pixel - row));
    }
  });
}

Tensor empty_nhwc(const Shape& shape, DType dtype) {
  return empty_in(kChannelsLast, shape, dtype, kCPU);
}

Tensor strips_of(const Tensor& images, const Tensor& strips, int64_t pitch) {
  const profile::DeviceRange range("reorder", kCPU);
  for_rows(images, strips, pitch, [](const char* image, char* strip, size_t row, size_t gap) {
    if (image != nullptr) {
      std::memcpy(strip, image, row);
      std::memset(strip + row, 0, gap);
    } else {
      std::memset(strip, 0, row + gap);
    }
  });
  return strips;
}

void take(const Tensor& images, const Tensor& strips, int64_t pitch) {
  const profile::DeviceRange range("reorder", kCPU);
  for_rows(images, strips, pitch, [](char* image, const char* strip, size_t row, size_t) {
    if (image != nullptr) std::memcpy(image, strip, row);
  });
}

}  // namespace

Tensor Conv2dStrips::empty_x(DType dtype) const { return empty_nhwc(strip.x_shape(), dtype); }
Tensor Conv2dStrips::empty_y(DType dtype) const { return empty_nhwc(strip.y_shape(), dtype); }

Tensor Conv2dStrips::strips_of_x(const Tensor& x) const {
  return strips_of(x, empty_x(x.dtype()), x_pitch());
}
Tensor Conv2dStrips::strips_of_y(const Tensor& y) const {
  return strips_of(y, empty_y(y.dtype()), y_pitch());
}
void Conv2dStrips::take_x(const Tensor& x, const Tensor& strips) const {
  take(x, strips, x_pitch());
}
void Conv2dStrips::take_y(const Tensor& y, const Tensor& strips) const {
  take(y, strips, y_pitch());
}

bool fits_strips(const Conv2dGeometry& g) {
  return 2 * g.pad.cols < reach(g) && 2 * g.pad.cols >= reach(g) - g.stride.cols;
}

Conv2dStrips make_conv2d_strips(const Conv2dGeometry& g, int64_t images) {
  // The next image must begin beyond the reach of this one's last output, and its first output must
  // not reach this one. The distance is a whole number of strides, so that y's columns are its
  // outputs.
  const int64_t stride = g.stride.cols;
  const int64_t apart = std::max(g.W + g.pad.cols, (g.Q - 1) * stride - g.pad.cols + reach(g));
  Conv2dStrips strips{g, images};
  strips.strip.N = ceil_div(g.N, images);
  strips.strip.Q = ceil_div(apart, stride) * images;
  strips.strip.W = strips.strip.Q * stride;
  return strips;
}

}  // namespace lathe::cpu
