// Resizing of a batch on the GPU. For each axis a small kernel makes the tables of weights with the
// arithmetic of the CPU (resize_weights.h). Then one pass goes along the rows into scratch bytes,
// and one along the columns. The boxes travel in the kernels' parameters, so nothing is copied to
// the device.
#include <algorithm>

#include "lathe/core/ceil_div.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/core/gpu/strided_index.cuh"
#include "lathe/data/transforms/resize_batch.h"
#include "lathe/data/transforms/resize_weights.h"
#include "lathe/ops/creation.h"

namespace lathe::data::cuda {

namespace {

struct Box {
  int32_t top, left, height, width;
};

/// The boxes of one launch's samples.
struct Boxes {
  static constexpr int kSamples = 128;
  Box box[kSamples];
};

/// For each sample and result pixel along one axis: the first source pixel in its box, how many
/// follow, and their weights.
struct Tables {
  int32_t *first, *count, *weights;
  int32_t out, taps;  // results; weights per result that fit
};

/// Result positions as sample, channel, row and column; the column runs fastest.
struct Places {
  Divider<uint32_t> columns, rows, channels;

  struct Place {
    int32_t n, c, row, column;
  };
  LATHE_HD Place operator()(uint32_t i) const {
    const uint32_t a = columns.quotient(i), b = rows.quotient(a), n = channels.quotient(b);
    return {static_cast<int32_t>(n), static_cast<int32_t>(b - n * channels.divisor()),
            static_cast<int32_t>(a - b * rows.divisor()),
            static_cast<int32_t>(i - a * columns.divisor())};
  }
};

/// Strides of the images.
struct Steps {
  int64_t n, c, h, w;
};

// The tables of one axis. One thread per sample and result pixel, with a few double operations per
// weight. Small beside the passes: samples x (height + width) threads.
__global__ void resize_weights_kernel(Tables tables, Boxes boxes, bool along_rows, bool nearest,
                                      uint32_t total) {
  const uint32_t step = gridDim.x * blockDim.x;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
    const auto n = static_cast<int32_t>(i) / tables.out, x = static_cast<int32_t>(i) % tables.out;
    const int32_t in = along_rows ? boxes.box[n].width : boxes.box[n].height;
    int32_t* weights = tables.weights + static_cast<int64_t>(i) * tables.taps;
    if (nearest) {
      tables.first[i] = nearest_pixel(in, tables.out, x);
      tables.count[i] = 1;
      weights[0] = kWeightOne;
      continue;
    }
    const Triangle triangle = Triangle::of(in, tables.out);
    const int32_t first = triangle.first(x), last = triangle.last(x);
    const double sum = triangle.total(x);
    tables.first[i] = first;
    tables.count[i] = last - first;
    for (int32_t k = first; k < last; ++k) weights[k - first] = triangle.weight(x, k, sum);
  }
}

// Along the rows: scratch[n,c,y,x] for the rows y of sample n's box. One thread per byte.
// Neighbouring threads read the same or neighbouring source bytes, which come from the cache.
__global__ void resize_rows_kernel(uint8_t* __restrict__ scratch,
                                   const uint8_t* __restrict__ images, Tables tables, Boxes boxes,
                                   Places places, Steps steps, uint32_t total) {
  const uint32_t step = gridDim.x * blockDim.x;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
    const Places::Place at = places(i);
    const Box box = boxes.box[at.n];
    if (at.row >= box.height) continue;
    const int64_t entry = static_cast<int64_t>(at.n) * tables.out + at.column;
    const int32_t* weights = tables.weights + entry * tables.taps;
    const uint8_t* from = images + at.n * steps.n + at.c * steps.c + (box.top + at.row) * steps.h +
                          (box.left + tables.first[entry]) * steps.w;
    int32_t sum = 0;
    for (int32_t k = 0; k < tables.count[entry]; ++k) sum += from[k * steps.w] * weights[k];
    scratch[i] = weighted_byte(sum);
  }
}

// Along the columns: out[n,c,y,x] from scratch. One thread per byte. Whole rows are read,
// coalesced, once per weight. Meant to be bound by writing the result and reading the scratch bytes
// once.
__global__ void resize_columns_kernel(uint8_t* __restrict__ out,
                                      const uint8_t* __restrict__ scratch, Tables tables,
                                      Places places, int32_t scratch_rows, uint32_t total) {
  const uint32_t step = gridDim.x * blockDim.x;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
    const Places::Place at = places(i);
    const int64_t entry = static_cast<int64_t>(at.n) * tables.out + at.row;
    const int32_t* weights = tables.weights + entry * tables.taps;
    const auto width = static_cast<int32_t>(places.columns.divisor());
    const auto channels = static_cast<int32_t>(places.channels.divisor());
    const int64_t row =
        (static_cast<int64_t>(at.n) * channels + at.c) * scratch_rows + tables.first[entry];
    const uint8_t* from = scratch + row * width + at.column;
    int32_t sum = 0;
    for (int32_t k = 0; k < tables.count[entry]; ++k) sum += from[int64_t{k} * width] * weights[k];
    out[i] = weighted_byte(sum);
  }
}

/// The tables of one axis of `samples` boxes, the largest of which has `most` pixels.
struct AxisTables {
  AxisTables(const Boxes& boxes, bool along_rows, bool nearest, int64_t samples, int64_t most,
             int64_t out, Device device) {
    const int64_t taps = nearest ? 1 : 2 * ceil_div(most, out) + 3, entries = samples * out;
    memory = empty({entries * (2 + taps)}, {.dtype = kI32, .device = device});
    int32_t* first = memory.data<int32_t>();
    tables = {first, first + entries, first + 2 * entries, static_cast<int32_t>(out),
              static_cast<int32_t>(taps)};
    const auto [grid, block] = launch_1d(entries);
    launch(resize_weights_kernel, grid, block, 0, current_stream(device), tables, boxes, along_rows,
           nearest, static_cast<uint32_t>(entries));
    LATHE_CUDA_CHECK(cudaGetLastError());
  }

  Tensor memory;
  Tables tables;
};

}  // namespace

void resize_batch(const Tensor& out, const Tensor& images, std::span<const ResizeBox> boxes,
                  Interpolation interpolation) {
  constexpr int64_t kMost = (int64_t{1} << 31) - 1;
  const int64_t channels = out.dim(1), height = out.dim(2), width = out.dim(3);
  const int64_t rows = images.dim(2);
  const int64_t sample = channels * std::max(height, rows) * width;
  LATHE_CHECK(ValueError, sample <= kMost, "resize: images of 2^31 bytes or more (images: ", images,
              ", result: ", out, ")");
  if (out.numel() == 0) return;
  const int64_t most = std::min<int64_t>(Boxes::kSamples, kMost / sample);
  const bool nearest = interpolation == Interpolation::kNearest;
  const Device device = out.device();
  const Steps steps{images.stride(0), images.stride(1), images.stride(2), images.stride(3)};
  const Places row_places{Divider<uint32_t>(width), Divider<uint32_t>(rows),
                          Divider<uint32_t>(channels)};
  const Places column_places{Divider<uint32_t>(width), Divider<uint32_t>(height),
                             Divider<uint32_t>(channels)};
  const Tensor scratch =
      empty({std::min(most, out.dim(0)), channels, rows, width}, {.dtype = kU8, .device = device});

  for (int64_t first = 0; first < out.dim(0); first += most) {
    const int64_t samples = std::min(most, out.dim(0) - first);
    Boxes part = {};
    for (int64_t n = 0; n < samples; ++n) {
      const ResizeBox& box = boxes[static_cast<size_t>(first + n)];
      part.box[n] = {static_cast<int32_t>(box.top), static_cast<int32_t>(box.left),
                     static_cast<int32_t>(box.height), static_cast<int32_t>(box.width)};
    }
    const AxisTables along(part, true, nearest, samples, images.dim(3), width, device);
    const AxisTables down(part, false, nearest, samples, rows, height, device);

    const int64_t row_bytes = samples * channels * rows * width;
    const auto [row_grid, row_block] = launch_1d(row_bytes);
    launch(resize_rows_kernel, row_grid, row_block, 0, current_stream(device),
           scratch.data<uint8_t>(), images.data<uint8_t>() + first * steps.n, along.tables, part,
           row_places, steps, static_cast<uint32_t>(row_bytes));
    LATHE_CUDA_CHECK(cudaGetLastError());

    const int64_t bytes = samples * channels * height * width;
    const auto [grid, block] = launch_1d(bytes);
    launch(resize_columns_kernel, grid, block, 0, current_stream(device),
           out.data<uint8_t>() + first * channels * height * width, scratch.data<uint8_t>(),
           down.tables, column_places, static_cast<int32_t>(rows), static_cast<uint32_t>(bytes));
    LATHE_CUDA_CHECK(cudaGetLastError());
  }
}

}  // namespace lathe::data::cuda
