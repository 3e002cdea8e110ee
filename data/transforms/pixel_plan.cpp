// Plans, and render(), the one pass that carries a plan out. It loads 16 pixels of a row at once,
// masks them, reverses them if flipped, and stores them as bytes or floats. All loops have constant
// lengths, so that the compiler turns them into a few vector instructions. If a row's width is no
// multiple of 16, its last 16 pixels overlap those before.
#include "lathe/data/transforms/pixel_plan.h"

#include <algorithm>
#include <cstring>
#include <span>
#include <vector>

#include "lathe/core/error.h"

namespace lathe::data {
namespace {

constexpr int64_t kPixels = 16;

struct alignas(16) Pixels {
  uint8_t v[kPixels];
};

Pixels load(const uint8_t* from) {
  Pixels b;
  std::memcpy(b.v, from, kPixels);
  return b;
}

Pixels masked(const Pixels& a, const Pixels& mask) {
  Pixels b;
  for (int k = 0; k < kPixels; ++k) b.v[k] = a.v[k] & mask.v[k];
  return b;
}

Pixels reversed(const Pixels& a) {
  Pixels b;
  for (int k = 0; k < kPixels; ++k) b.v[k] = a.v[kPixels - 1 - k];
  return b;
}

struct StoreBytes {
  void operator()(uint8_t* __restrict out, const Pixels& pixels) const {
    std::memcpy(out, pixels.v, kPixels);
  }
};

struct StoreFloats {
  float scale, bias;
  void operator()(float* __restrict out, const Pixels& pixels) const {
    for (int k = 0; k < kPixels; ++k) out[k] = pixel_value(pixels.v[k], scale, bias);
  }
};

/// The source columns of 16 pixels, the same for every row.
struct Column {
  int64_t at;      // in the output row
  int64_t source;  // first of 16 source columns; may reach beyond the row
  int64_t count;   // 16, or the width of a narrower image
  Pixels mask;     // 0xff where the source column is valid
};

std::span<const Column> columns_of(const PixelPlan& plan) {
  thread_local std::vector<Column> columns;
  columns.clear();
  for (int64_t k = 0; k < plan.width; k += kPixels) {
    const int64_t count = std::min(kPixels, plan.width);
    const int64_t at = std::min(k, plan.width - count);
    Column column{at, plan.left + (plan.flipped ? plan.width - count - at : at), count, {}};
    for (int64_t i = 0; i < count; ++i) {
      const int64_t x = column.source + i;
      column.mask.v[i] = x >= plan.valid_left && x < plan.valid_right ? 0xff : 0;
    }
    columns.push_back(column);
  }
  return columns;
}

/// Sixteen bytes from `at` on. Bytes outside the plane, which has `size` bytes, are not read.
Pixels load_within(const uint8_t* plane, int64_t size, int64_t at) {
  if (at >= 0 && at + kPixels <= size) [[likely]]
    return load(plane + at);
  Pixels b{};
  for (int64_t k = 0; k < kPixels; ++k)
    if (at + k >= 0 && at + k < size) b.v[k] = plane[at + k];
  return b;
}

template <bool kFlipped, class T, class Store>
void render_plane(const PixelPlan& plan, std::span<const Column> columns, int64_t c,
                  T* __restrict out, const Store store) {
  const int64_t source_width = plan.source_width, width = plan.width;
  const int64_t plane_bytes = plan.source_height * source_width;
  const uint8_t* plane = plan.source + c * plane_bytes;
  for (int64_t r = 0; r < plan.height; ++r, out += width) {
    const int64_t y = plan.top + (plan.flipped_rows ? plan.height - 1 - r : r);
    const bool valid = y >= plan.valid_top && y < plan.valid_bottom;
    for (const Column& column : columns) {
      Pixels pixels{};
      if (valid)
        pixels =
            masked(load_within(plane, plane_bytes, y * source_width + column.source), column.mask);
      if (kFlipped) pixels = reversed(pixels);
      if (column.count == kPixels) [[likely]] {
        store(out + column.at, pixels);
      } else {
        T narrow[kPixels];
        store(narrow, pixels);
        std::copy_n(narrow + (kFlipped ? kPixels - column.count : 0), column.count, out);
      }
    }
  }
}

template <class T, class Store>
void render_plane(const PixelPlan& plan, std::span<const Column> columns, int64_t c, T* out,
                  const Store& store) {
  if (plan.flipped) {
    render_plane<true>(plan, columns, c, out, store);
  } else {
    render_plane<false>(plan, columns, c, out, store);
  }
}

void render_pixels(const PixelPlan& plan, void* out) {
  const std::span<const Column> columns = columns_of(plan);
  for (int64_t c = 0; c < plan.channels; ++c) {
    const int64_t at = c * plan.height * plan.width;
    if (plan.is_float) {
      const StoreFloats store{static_cast<float>(plan.scale[c]), static_cast<float>(plan.bias[c])};
      render_plane(plan, columns, c, static_cast<float*>(out) + at, store);
    } else {
      render_plane(plan, columns, c, static_cast<uint8_t*>(out) + at, StoreBytes{});
    }
  }
}

template <class T>
void erase(const PixelPlan& plan, const PixelPlan::Erased& box, int64_t c, T* out, T value) {
  for (int64_t r = box.top; r < box.bottom; ++r) {
    T* row = out + (c * plan.height + r) * plan.width;
    std::fill(row + box.left, row + box.right, value);
  }
}

std::span<PixelPlan::Erased> erased_in(PixelPlan& plan) {
  return {plan.erased, static_cast<size_t>(plan.erased_count)};
}

}  // namespace

SampleWindow window_of(const PixelPlan& plan) {
  const auto narrow = [](int64_t n) {
    LATHE_CHECK(ValueError, n == static_cast<int16_t>(n), "augment: an image or a crop of ", n,
                " rows or columns; more than 32767 are for a loader's transform");
    return static_cast<int16_t>(n);
  };
  SampleWindow window = {
      narrow(plan.top),        narrow(plan.left),         narrow(plan.valid_top),
      narrow(plan.valid_left), narrow(plan.valid_bottom), narrow(plan.valid_right),
      narrow(plan.flipped),    narrow(plan.flipped_rows), {}};
  for (int e = 0; e < plan.erased_count; ++e) {
    const PixelPlan::Erased& box = plan.erased[e];
    window.erased[e] = {narrow(box.top), narrow(box.left), narrow(box.bottom), narrow(box.right)};
  }
  return window;
}

PixelPlan identity_plan(const uint8_t* image, const ImageSpec& spec) {
  return {.source = image,
          .channels = spec.channels,
          .source_height = spec.height,
          .source_width = spec.width,
          .top = 0,
          .left = 0,
          .height = spec.height,
          .width = spec.width,
          .valid_top = 0,
          .valid_left = 0,
          .valid_bottom = spec.height,
          .valid_right = spec.width,
          .scale = {},
          .bias = {}};
}

PixelPlan plan_of(std::span<const Transform::Stage> stages, size_t first, const ImageSpec& in,
                  Key key) {
  PixelPlan plan = identity_plan(nullptr, in);
  for (size_t k = 0; k < stages.size(); ++k)
    stages[k].pixel->plan(plan, key.random(kTransformStream + static_cast<int>(first + k)));
  return plan;
}

void move_window(PixelPlan& plan, int64_t row, int64_t column, int64_t height, int64_t width) {
  plan.valid_top = std::max(plan.valid_top, plan.top);
  plan.valid_bottom = std::min(plan.valid_bottom, plan.top + plan.height);
  plan.valid_left = std::max(plan.valid_left, plan.left);
  plan.valid_right = std::min(plan.valid_right, plan.left + plan.width);
  plan.top += plan.flipped_rows ? plan.height - row - height : row;
  plan.left += plan.flipped ? plan.width - column - width : column;
  plan.height = height;
  plan.width = width;
  for (PixelPlan::Erased& box : erased_in(plan)) {
    box.top = std::clamp<int64_t>(box.top - row, 0, height);
    box.bottom = std::clamp<int64_t>(box.bottom - row, 0, height);
    box.left = std::clamp<int64_t>(box.left - column, 0, width);
    box.right = std::clamp<int64_t>(box.right - column, 0, width);
  }
}

void flip_columns(PixelPlan& plan) {
  plan.flipped = !plan.flipped;
  for (PixelPlan::Erased& box : erased_in(plan)) {
    const int64_t left = plan.width - box.right;
    box.right = plan.width - box.left;
    box.left = left;
  }
}

void flip_rows(PixelPlan& plan) {
  plan.flipped_rows = !plan.flipped_rows;
  for (PixelPlan::Erased& box : erased_in(plan)) {
    const int64_t top = plan.height - box.bottom;
    box.bottom = plan.height - box.top;
    box.top = top;
  }
}

bool is_window(const PixelPlan& plan) {
  return !plan.is_float && plan.erased_count == 0 && !plan.flipped && !plan.flipped_rows &&
         plan.top >= plan.valid_top && plan.left >= plan.valid_left &&
         plan.top + plan.height <= plan.valid_bottom && plan.left + plan.width <= plan.valid_right;
}

bool shows_all(const PixelPlan& plan) {
  return plan.valid_top <= 0 && plan.valid_left <= 0 && plan.valid_bottom >= plan.source_height &&
         plan.valid_right >= plan.source_width && plan.top == 0 && plan.left == 0 &&
         plan.height == plan.source_height && plan.width == plan.source_width;
}

void render(const PixelPlan& plan, void* out) {
  render_pixels(plan, out);
  for (int e = 0; e < plan.erased_count; ++e)
    for (int64_t c = 0; c < plan.channels; ++c) {
      const auto value = plan.erased[e].value[c];
      if (plan.is_float) {
        erase(plan, plan.erased[e], c, static_cast<float*>(out), static_cast<float>(value));
      } else {
        erase(plan, plan.erased[e], c, static_cast<uint8_t*>(out), static_cast<uint8_t>(value));
      }
    }
}

}  // namespace lathe::data
