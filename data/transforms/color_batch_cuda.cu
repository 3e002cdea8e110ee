// Colour changes of a batch on the GPU. Each image's steps travel in the kernels' parameters.
// Contrast needs the mean luma of the result of the steps before it; if an image has a contrast
// step, a separate kernel sums that up, in integers.
#include <algorithm>

#include "lathe/core/ceil_div.h"
#include "lathe/core/gpu/launch.h"
#include "lathe/data/transforms/color_batch.h"
#include "lathe/data/transforms/color_math.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/reduce_kernels/block_reduce.cuh"

namespace lathe::data::cuda {

namespace {

constexpr int kMost = static_cast<int>(kMostColorSteps);

/// The steps of one launch's samples.
struct Changes {
  static constexpr int kSamples = 128;
  struct Change {
    ColorStep step[kMost];
    float amount[kMost];  // the factor; for hue the steps of H
  } change[kSamples];
};

/// `sums`: the sum of the luma, one number per sample.
struct Images {
  int64_t count;  // pixels per image
  unsigned long long* sums;
};

/// Pixel i of an image of kChannels planes.
template <int kChannels>
__device__ Rgb read_pixel(const uint8_t* image, int64_t count, int64_t i) {
  if constexpr (kChannels == 1) return {image[i], image[i], image[i]};
  return {image[i], image[count + i], image[2 * count + i]};
}

/// A pixel after one step. Grey images ignore saturation and hue.
template <int kChannels>
__device__ Rgb after(const Rgb& x, ColorStep step, float amount, int mean) {
  switch (step) {
    case ColorStep::kBrightness:
      return {blend(0, x.r, amount), blend(0, x.g, amount), blend(0, x.b, amount)};
    case ColorStep::kContrast:
      return {blend(mean, x.r, amount), blend(mean, x.g, amount), blend(mean, x.b, amount)};
    case ColorStep::kSaturation: {
      if (kChannels == 1) return x;
      const int grey = luma(x.r, x.g, x.b);
      return {blend(grey, x.r, amount), blend(grey, x.g, amount), blend(grey, x.b, amount)};
    }
    case ColorStep::kHue: return kChannels == 1 ? x : turned(x, static_cast<uint8_t>(amount));
    default: return x;
  }
}

struct Add {
  __device__ int64_t operator()(int64_t a, int64_t b) const { return a + b; }
};

// The sum of the luma before contrast. A row of blocks per image; each block adds its part with one
// integer atomic, whose order does not matter. Reads 3 bytes per pixel of the images that need it;
// the next kernel finds them in the L2 cache. Meant to reach half of the copy bandwidth
// (single-byte loads), except for turned hues, which are bound by arithmetic.
template <int kChannels>
__global__ void sum_luma_kernel(const uint8_t* __restrict__ images, Images all, Changes changes) {
  const Changes::Change& change = changes.change[blockIdx.y];
  int steps = 0;  // before contrast
  while (steps < kMost && change.step[steps] != ColorStep::kContrast) ++steps;
  if (steps == kMost) return;
  const uint8_t* image = images + static_cast<int64_t>(blockIdx.y) * kChannels * all.count;
  int64_t sum = 0;
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < all.count;
       i += int64_t{gridDim.x} * blockDim.x) {
    Rgb x = read_pixel<kChannels>(image, all.count, i);
    for (int k = 0; k < steps; ++k) x = after<kChannels>(x, change.step[k], change.amount[k], 0);
    sum += luma(x.r, x.g, x.b);
  }
  sum = lathe::cuda::block_reduce(sum, Add{});
  if (threadIdx.x == 0) atomicAdd(all.sums + blockIdx.y, static_cast<unsigned long long>(sum));
}

// All steps of each image, pixel by pixel. A row of blocks per image, whose threads take the pixels
// in turn; neighbours read neighbouring bytes of each plane. 2 bytes per number; meant to reach
// half of the copy bandwidth, except for turned hues.
template <int kChannels>
__global__ void change_colors_kernel(uint8_t* __restrict__ out, const uint8_t* __restrict__ images,
                                     Images all, Changes changes) {
  const Changes::Change& change = changes.change[blockIdx.y];
  const int64_t first = static_cast<int64_t>(blockIdx.y) * kChannels * all.count;
  int mean = 0;
  if (all.sums != nullptr) {
    mean = mean_luma(static_cast<int64_t>(all.sums[blockIdx.y]), all.count);
  }
  for (int64_t i = blockIdx.x * int64_t{blockDim.x} + threadIdx.x; i < all.count;
       i += int64_t{gridDim.x} * blockDim.x) {
    Rgb x = read_pixel<kChannels>(images + first, all.count, i);
    for (int k = 0; k < kMost; ++k) x = after<kChannels>(x, change.step[k], change.amount[k], mean);
    out[first + i] = x.r;
    if constexpr (kChannels == 3) {
      out[first + all.count + i] = x.g;
      out[first + 2 * all.count + i] = x.b;
    }
  }
}

Changes::Change as_parameter(const ColorSteps& steps) {
  Changes::Change change = {};
  for (size_t k = 0; k < kMostColorSteps; ++k) {
    change.step[k] = steps.step[k];
    change.amount[k] = steps.step[k] == ColorStep::kHue
                           ? static_cast<float>(hue_steps(steps.amount[k]))
                           : static_cast<float>(steps.amount[k]);
  }
  return change;
}

bool has_contrast(const ColorSteps& steps) {
  return std::count(std::begin(steps.step), std::end(steps.step), ColorStep::kContrast) > 0;
}

template <int kChannels>
void change_planes(const Tensor& out, const Tensor& images, std::span<const ColorSteps> steps) {
  constexpr int64_t kBlock = 256, kMostBlocks = 64;  // of one image
  const Device device = out.device();
  const int64_t count = images.dim(2) * images.dim(3);
  const auto blocks =
      static_cast<unsigned>(std::clamp<int64_t>(ceil_div(count, kBlock), 1, kMostBlocks));
  for (size_t first = 0; first < steps.size(); first += Changes::kSamples) {
    const auto part =
        steps.subspan(first, std::min<size_t>(Changes::kSamples, steps.size() - first));
    Changes changes = {};
    std::transform(part.begin(), part.end(), changes.change, as_parameter);
    const dim3 grid(blocks, static_cast<unsigned>(part.size()));
    const int64_t offset = static_cast<int64_t>(first) * kChannels * count;
    const uint8_t* from = images.data<uint8_t>() + offset;
    Images all{count, nullptr};
    Tensor sums;
    if (std::any_of(part.begin(), part.end(), has_contrast)) {
      sums = zeros({static_cast<int64_t>(part.size())}, {.dtype = kI64, .device = device});
      all.sums = reinterpret_cast<unsigned long long*>(sums.data<int64_t>());
      launch(sum_luma_kernel<kChannels>, grid, dim3(kBlock), 0, current_stream(device), from, all,
             changes);
      LATHE_CUDA_CHECK(cudaGetLastError());
    }
    launch(change_colors_kernel<kChannels>, grid, dim3(kBlock), 0, current_stream(device),
           out.data<uint8_t>() + offset, from, all, changes);
    LATHE_CUDA_CHECK(cudaGetLastError());
  }
}

}  // namespace

void change_colors(const Tensor& out, const Tensor& images, std::span<const ColorSteps> steps) {
  if (images.dim(1) == 1) return change_planes<1>(out, images, steps);
  change_planes<3>(out, images, steps);
}

}  // namespace lathe::data::cuda
