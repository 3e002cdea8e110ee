// augment() and augment_rows() on the GPU. Random values were drawn on the host from (seed, epoch,
// index), as for the loader's workers. For augment() the windows travel in the kernel's parameters,
// so nothing is copied to the device; for augment_rows() they lie there.
#include <algorithm>

#include "lathe/core/gpu/launch.h"
#include "lathe/core/gpu/raise_fault.cuh"
#include "lathe/core/gpu/strided_index.cuh"
#include "lathe/core/visit.h"
#include "lathe/data/transforms/augment.h"
#include "lathe/data/transforms/augment_rows.h"
#include "lathe/data/transforms/pixel_math.h"
#include "lathe/data/transforms/pixel_plan.h"

namespace lathe::data::cuda {

namespace {

/// How bytes become numbers, and what is written where pixels are erased.
struct Values {
  float scale[kMaxImageChannels], bias[kMaxImageChannels];
  float erased[kMaxErased][kMaxImageChannels];
};

/// The windows of one launch's samples.
struct Windows {
  static constexpr int kSamples = 96;  // so the parameters take less than 4096 bytes
  SampleWindow window[kSamples];
  Values values;
};

/// Where a number of the result lies.
struct Place {
  uint32_t n;
  int32_t c, r, k;
};

/// The result's dense order, and the strides of the images.
struct Order {
  Divider<uint32_t> first, second, third;  // the sizes of the three fastest dimensions
  bool channels_inside;
  int32_t height, width;
  int64_t n, c, h, w;

  __device__ Place place(uint32_t i) const {
    const uint32_t a = first.quotient(i), b = second.quotient(a);
    const uint32_t sample = third.quotient(b);
    const auto fastest = static_cast<int32_t>(i - a * first.divisor());
    const auto middle = static_cast<int32_t>(a - b * second.divisor());
    const auto slowest = static_cast<int32_t>(b - sample * third.divisor());
    if (channels_inside) return {sample, fastest, slowest, middle};
    return {sample, slowest, middle, fastest};
  }
};

/// A number of the result. `image` is its sample's.
template <class T>
__device__ inline T number_at(const Place& at, const uint8_t* __restrict__ image,
                              const SampleWindow& window, const Values& values,
                              const Order& order) {
  if (const int e = window.erased_at(at.r, at.k); e >= 0) return T(values.erased[e][at.c]);
  const SampleWindow::Source from = window.source(at.r, at.k, order.height, order.width);
  uint8_t byte = 0;
  if (from.valid) byte = image[at.c * order.c + from.row * order.h + from.col * order.w];
  if constexpr (std::is_same_v<T, uint8_t>) {
    return byte;
  } else {
    return T(pixel_value(byte, values.scale[at.c], values.bias[at.c]));
  }
}

// One thread per number of the result, in its memory order; neighbours read neighbouring bytes. 1
// byte read and sizeof(T) written per number. The batch of a small data set (128 x 3 x 32 x 32) is
// bound by the launch; larger ones are meant to reach half of the copy bandwidth (single-byte
// loads).
template <class T>
__global__ void augment_kernel(T* __restrict__ out, const uint8_t* __restrict__ images,
                               Windows windows, Order order, uint32_t total) {
  const uint32_t step = gridDim.x * blockDim.x;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
    const Place at = order.place(i);
    out[i] = number_at<T>(at, images + at.n * order.n, windows.window[at.n], windows.values, order);
  }
}

// The same with rows of `count` images, and windows in device memory, 32 bytes for each sample,
// which its threads read from the cache.
template <class T>
__global__ void augment_rows_kernel(T* __restrict__ out, const uint8_t* __restrict__ images,
                                    const int64_t* __restrict__ rows,
                                    const SampleWindow* __restrict__ windows, Values values,
                                    Order order, int64_t count, uint32_t total, const char* op,
                                    DeviceFault* fault) {
  const uint32_t step = gridDim.x * blockDim.x;
  for (uint32_t i = blockIdx.x * blockDim.x + threadIdx.x; i < total; i += step) {
    const Place at = order.place(i);
    const int64_t row = rows[at.n];
    if (row < 0 || row >= count) {
      raise_fault(fault, op, static_cast<int64_t>(at.n), row, count);
      out[i] = T{};
      continue;
    }
    out[i] = number_at<T>(at, images + row * order.n, windows[at.n], values, order);
  }
}

Order order_of(const Tensor& out, const Tensor& images) {
  const bool nhwc = !out.is_contiguous();
  const int64_t channels = out.dim(1), height = out.dim(2), width = out.dim(3);
  return {Divider<uint32_t>(nhwc ? channels : width),
          Divider<uint32_t>(nhwc ? width : height),
          Divider<uint32_t>(nhwc ? height : channels),
          nhwc,
          static_cast<int32_t>(height),
          static_cast<int32_t>(width),
          images.stride(0),
          images.stride(1),
          images.stride(2),
          images.stride(3)};
}

Values values_of(const PixelPlan& plan) {
  Values values = {};
  for (int64_t c = 0; c < plan.channels && plan.is_float; ++c) {
    values.scale[c] = static_cast<float>(plan.scale[c]);
    values.bias[c] = static_cast<float>(plan.bias[c]);
  }
  for (int e = 0; e < plan.erased_count; ++e)
    for (int64_t c = 0; c < plan.channels; ++c)
      values.erased[e][c] = static_cast<float>(plan.erased[e].value[c]);
  return values;
}

/// Numbers of a sample of the result. A launch counts its numbers in 32 bits.
int64_t numbers_of_sample(const Tensor& out, const char* op) {
  const int64_t sample = out.dim(1) * out.dim(2) * out.dim(3);
  LATHE_CHECK(ValueError, sample < (int64_t{1} << 31) / Windows::kSamples, op,
              ": images of more than 2^24 numbers (result: ", out, ")");
  return sample;
}

/// augment.cpp refuses others, f64 among them.
template <class F>
void visit_result(const Tensor& out, F&& f) {
  switch (out.dtype()) {
    case DType::kU8: return f(TypeTag<uint8_t>{});
    case DType::kF16: return f(TypeTag<Half>{});
    case DType::kBF16: return f(TypeTag<BFloat16>{});
    default: return f(TypeTag<float>{});
  }
}

}  // namespace

void augment(const Tensor& out, const Tensor& images, std::span<const PixelPlan> plans) {
  const int64_t sample = numbers_of_sample(out, "augment");
  const Order order = order_of(out, images);
  visit_result(out, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (size_t first = 0; first < plans.size(); first += Windows::kSamples) {
      const size_t count = std::min<size_t>(Windows::kSamples, plans.size() - first);
      Windows windows = {.window = {}, .values = values_of(plans[0])};
      for (size_t n = 0; n < count; ++n) windows.window[n] = window_of(plans[first + n]);
      const auto offset = static_cast<int64_t>(first);
      const int64_t total = static_cast<int64_t>(count) * sample;
      const auto [grid, block] = launch_1d(total);
      launch(augment_kernel<T>, grid, block, 0, current_stream(out.device()),
             out.data<T>() + offset * sample, images.data<uint8_t>() + offset * images.stride(0),
             windows, order, static_cast<uint32_t>(total));
      LATHE_CUDA_CHECK(cudaGetLastError());
    }
  });
}

void augment_rows(const Tensor& out, const RowsOfImages& from) {
  constexpr const char* kOp = "augment_rows";
  const int64_t sample = numbers_of_sample(out, kOp);
  const int64_t most = ((int64_t{1} << 31) - 1) / sample;  // samples of a launch
  const Order order = order_of(out, from.images);
  const Values values = values_of(from.same);
  const auto* const windows = reinterpret_cast<const SampleWindow*>(from.windows.raw_data());
  visit_result(out, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int64_t first = 0; first < out.dim(0); first += most) {
      const int64_t total = std::min(most, out.dim(0) - first) * sample;
      const auto [grid, block] = launch_1d(total);
      launch(augment_rows_kernel<T>, grid, block, 0, current_stream(out.device()),
             out.data<T>() + first * sample, from.images.data<uint8_t>(),
             from.rows.data<int64_t>() + first, windows + first, values, order, from.images.dim(0),
             static_cast<uint32_t>(total), kOp, lathe::cuda::device_fault(out.device()));
      LATHE_CUDA_CHECK(cudaGetLastError());
    }
  });
}

}  // namespace lathe::data::cuda
