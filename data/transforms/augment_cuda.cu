// augment() on the GPU. Random values were drawn on the host from (seed, epoch, index), as for the
// loader's workers. The windows travel in the kernel's parameters, so nothing is copied to the
// device.
#include <algorithm>

#include "lathe/core/gpu/launch.h"
#include "lathe/core/gpu/strided_index.cuh"
#include "lathe/core/visit.h"
#include "lathe/data/transforms/augment.h"
#include "lathe/data/transforms/pixel_math.h"
#include "lathe/data/transforms/pixel_plan.h"

namespace lathe::data::cuda {

namespace {

/// The windows of one launch's samples, and how bytes become numbers.
struct Windows {
  static constexpr int kSamples = 96;  // so the parameters take less than 4096 bytes
  SampleWindow window[kSamples];
  float scale[kMaxImageChannels], bias[kMaxImageChannels];
  float erased[kMaxErased][kMaxImageChannels];
};

/// The result's dense order, and the strides of the images.
struct Order {
  Divider<uint32_t> first, second, third;  // the sizes of the three fastest dimensions
  bool channels_inside;
  int32_t height, width;
  int64_t n, c, h, w;
};

// One thread per number of the result, in its memory order; neighbours read neighbouring bytes. 1
// byte read and sizeof(T) written per number. The batch of a small data set (128 x 3 x 32 x 32) is
// bound by the launch; larger ones are meant to reach half of the copy bandwidth (single-byte
// loads).
template <class T>
__global__ void augment_kernel(T* __restrict__ out, const uint8_t* __restrict__ images,
                               Windows windows, Order order, uint32_t total) {
  const uint32_t step = gridDim.x * blockDim.x;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
    const uint32_t a = order.first.quotient(i), b = order.second.quotient(a);
    const uint32_t n = order.third.quotient(b);
    const auto fastest = static_cast<int32_t>(i - a * order.first.divisor());
    const auto middle = static_cast<int32_t>(a - b * order.second.divisor());
    const auto slowest = static_cast<int32_t>(b - n * order.third.divisor());
    const int32_t c = order.channels_inside ? fastest : slowest;
    const int32_t r = order.channels_inside ? slowest : middle;
    const int32_t k = order.channels_inside ? middle : fastest;
    if (const int e = windows.window[n].erased_at(r, k); e >= 0) {
      out[i] = T(windows.erased[e][c]);
      continue;
    }
    const SampleWindow::Source at = windows.window[n].source(r, k, order.height, order.width);
    uint8_t byte = 0;
    if (at.valid) byte = images[n * order.n + c * order.c + at.row * order.h + at.col * order.w];
    if constexpr (std::is_same_v<T, uint8_t>) {
      out[i] = byte;
    } else {
      out[i] = T(pixel_value(byte, windows.scale[c], windows.bias[c]));
    }
  }
}

}  // namespace

void augment(const Tensor& out, const Tensor& images, std::span<const PixelPlan> plans) {
  const bool nhwc = !out.is_contiguous();
  const int64_t channels = out.dim(1), height = out.dim(2), width = out.dim(3);
  const int64_t sample = channels * height * width;
  LATHE_CHECK(ValueError, sample < (int64_t{1} << 31) / Windows::kSamples,
              "augment: images of more than 2^24 numbers (result: ", out, ")");
  const Order order{Divider<uint32_t>(nhwc ? channels : width),
                    Divider<uint32_t>(nhwc ? width : height),
                    Divider<uint32_t>(nhwc ? height : channels),
                    nhwc,
                    static_cast<int32_t>(height),
                    static_cast<int32_t>(width),
                    images.stride(0),
                    images.stride(1),
                    images.stride(2),
                    images.stride(3)};
  const auto run = [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t first = 0; first < plans.size(); first += Windows::kSamples) {
      const size_t count = std::min<size_t>(Windows::kSamples, plans.size() - first);
      Windows windows = {};
      for (size_t n = 0; n < count; ++n) windows.window[n] = window_of(plans[first + n]);
      for (int64_t c = 0; c < channels && plans[0].is_float; ++c) {
        windows.scale[c] = static_cast<float>(plans[0].scale[c]);
        windows.bias[c] = static_cast<float>(plans[0].bias[c]);
      }
      for (int e = 0; e < plans[0].erased_count; ++e)
        for (int64_t c = 0; c < channels; ++c)
          windows.erased[e][c] = static_cast<float>(plans[0].erased[e].value[c]);
      const auto offset = static_cast<int64_t>(first);
      const int64_t total = static_cast<int64_t>(count) * sample;
      const auto [grid, block] = launch_1d(total);
      launch(augment_kernel<T>, grid, block, 0, current_stream(out.device()),
             out.data<T>() + offset * sample, images.data<uint8_t>() + offset * images.stride(0),
             windows, order, static_cast<uint32_t>(total));
      LATHE_CUDA_CHECK(cudaGetLastError());
    }
  };
  if (out.dtype() == kU8) return run(TypeTag<uint8_t>{});
  visit_float(out.dtype(), "augment", run);
}

}  // namespace lathe::data::cuda
