// Quantised convolution on any processor. Contract: quantized.h.
//
// Patches and filters are widened to 16 bits, whose products are added up in 32: the compiler makes
// PMADDWD of that loop, which adds two products exactly. A block of pixels shares each filter while
// it is in the cache.
#include <algorithm>
#include <cstdint>
#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/conv/cpu/packed_weights_cpu.h"
#include "lathe/ops/conv/cpu/quantized_conv2d_cpu.h"
#include "lathe/ops/memory_format.h"

namespace lathe::cpu {

namespace {

constexpr int64_t kPixels = 8;  // of a block

/// Filters of 16 bits as rows [R,S,C/groups].
struct WideRows {
  bool operator==(const WideRows&) const = default;
};

Tensor wide_filters(const Conv2dGeometry& g, const Tensor& w) {
  return packed_weights(w, WideRows{}, [&] {
    const int64_t channels = g.C / g.groups, window = g.R * g.S;
    Tensor rows = empty({g.K, g.taps()}, {.dtype = kI16});
    const int8_t* from = w.data<int8_t>();
    auto* to = rows.data<int16_t>();
    for (int64_t k = 0; k < g.K; ++k) {
      for (int64_t at = 0; at < window; ++at) {
        for (int64_t c = 0; c < channels; ++c) *to++ = from[(k * channels + c) * window + at];
      }
    }
    return rows;
  });
}

/// sums[i][k] = patches[i] * filters[k].
LATHE_CLONES void multiply(int32_t* __restrict__ sums, int64_t sums_step,
                           const int16_t* __restrict__ patches, int64_t patches_step,
                           const int16_t* __restrict__ filters, int64_t count, int64_t taps,
                           int64_t pixels) {
  for (int64_t k = 0; k < count; ++k) {
    for (int64_t i = 0; i < pixels; ++i) {
      const int16_t *a = patches + i * patches_step, *b = filters + k * taps;
      int32_t sum = 0;
      for (int64_t t = 0; t < taps; ++t) sum += int32_t{a[t]} * int32_t{b[t]};
      sums[i * sums_step + k] = sum;
    }
  }
}

LATHE_CLONES void scale_sums(float* __restrict__ v, const int32_t* __restrict__ sums,
                             const float* __restrict__ multiplier, const float* __restrict__ offset,
                             int64_t n) {
  for (int64_t k = 0; k < n; ++k) {
    v[k] = static_cast<float>(sums[k]) * multiplier[k] + offset[k];
  }
}
LATHE_CLONES void cut_at_zero(float* v, int64_t n) {
  for (int64_t k = 0; k < n; ++k) v[k] = v[k] < 0 ? 0 : v[k];
}

template <class R>
void add_residual(float* v, const R* residual, float multiplier, int64_t n) {
  for (int64_t k = 0; k < n; ++k) v[k] += static_cast<float>(residual[k]) * multiplier;
}

class Convolution {
 public:
  Convolution(const Conv2dGeometry& g, const Tensor& y, const Tensor& x, const Tensor& filters,
              const Requantization& numbers, const QuantizedEpilogue& then)
      : g_(g), y_(y), x_(x), filters_(filters), numbers_(numbers), then_(then) {}

  void run() {
    const int64_t pixels = g_.N * g_.P * g_.Q, of_block = kPixels * g_.K * (g_.taps() + 1);
    parallel_for(ceil_div(pixels, kPixels), std::max<int64_t>(1, (1 << 20) / of_block),
                 [&](int64_t begin, int64_t end) {
                   const int64_t patch = g_.groups * g_.taps();
                   std::vector<int16_t> patches(static_cast<size_t>(kPixels * patch));
                   std::vector<int32_t> sums(static_cast<size_t>(kPixels * g_.K));
                   std::vector<float> values(static_cast<size_t>(g_.K));
                   for (int64_t first = begin * kPixels; first < std::min(pixels, end * kPixels);
                        first += kPixels) {
                     block(first, std::min(kPixels, pixels - first), patches.data(), sums.data(),
                           values.data());
                   }
                 });
  }

 private:
  void block(int64_t first, int64_t count, int16_t* patches, int32_t* sums, float* values) const {
    const int64_t taps = g_.taps(), patch = g_.groups * taps, of_group = g_.K / g_.groups;
    for (int64_t i = 0; i < count; ++i) {
      if (x_.dtype() == kU8) {
        gather<uint8_t>(patches + i * patch, first + i);
      } else {
        gather<int8_t>(patches + i * patch, first + i);
      }
    }
    for (int64_t group = 0; group < g_.groups; ++group) {
      multiply(sums + group * of_group, g_.K, patches + group * taps, patch,
               filters_.data<int16_t>() + group * of_group * taps, of_group, taps, count);
    }
    for (int64_t i = 0; i < count; ++i) finish((first + i) * g_.K, sums + i * g_.K, values);
  }

  /// The patch of an output pixel: [groups,R,S,C/groups].
  template <class X>
  void gather(int16_t* to, int64_t pixel) const {
    const int64_t channels = g_.C / g_.groups;
    const int64_t q = pixel % g_.Q, p = pixel / g_.Q % g_.P, n = pixel / (g_.Q * g_.P);
    const X* const image = x_.data<X>() + n * g_.H * g_.W * g_.C;
    for (int64_t group = 0; group < g_.groups; ++group) {
      for (int64_t r = 0; r < g_.R; ++r) {
        for (int64_t s = 0; s < g_.S; ++s, to += channels) {
          const int64_t row = p * g_.stride.rows - g_.pad.rows + r * g_.dilation.rows;
          const int64_t column = q * g_.stride.cols - g_.pad.cols + s * g_.dilation.cols;
          if (row < 0 || row >= g_.H || column < 0 || column >= g_.W) {
            std::fill_n(to, channels, int16_t{0});
          } else {
            std::copy_n(image + (row * g_.W + column) * g_.C + group * channels, channels, to);
          }
        }
      }
    }
  }

  /// One pixel of the result, from its element `at` on.
  void finish(int64_t at, const int32_t* sums, float* values) const {
    scale_sums(values, sums, numbers_.multiplier.data(), numbers_.offset.data(), g_.K);
    if (then_.residual.defined()) {
      const float multiplier = numbers_.residual_multiplier;
      if (then_.residual.dtype() == kU8) {
        add_residual(values, then_.residual.data<uint8_t>() + at, multiplier, g_.K);
      } else {
        add_residual(values, then_.residual.data<int8_t>() + at, multiplier, g_.K);
      }
    }
    if (then_.relu) cut_at_zero(values, g_.K);
    if (then_.dtype == kU8) {
      quantize_row(y_.data<uint8_t>() + at, values, 1, g_.K);
    } else if (then_.dtype == kI8) {
      quantize_row(y_.data<int8_t>() + at, values, 1, g_.K);
    } else {
      std::copy_n(values, g_.K, y_.data<float>() + at);
    }
  }

  const Conv2dGeometry& g_;
  const Tensor &y_, &x_, &filters_;
  const Requantization& numbers_;
  const QuantizedEpilogue& then_;
};

Requantization requantization(const Tensor& w_scale, const Tensor& bias,
                              const QuantizedEpilogue& then) {
  const double step = then.dtype == kF32 ? 1 : then.y_scale;
  const float* const scales = w_scale.data<float>();
  Requantization numbers;
  numbers.residual_multiplier = static_cast<float>(then.residual_scale / step);
  for (int64_t k = 0; k < w_scale.numel(); ++k) {
    numbers.multiplier.push_back(static_cast<float>(then.x_scale * double{scales[k]} / step));
    const double offset = bias.defined() ? double{bias.data<float>()[k]} / step : 0;
    numbers.offset.push_back(static_cast<float>(offset));
  }
  return numbers;
}

}  // namespace

Tensor quantized_conv2d(const Conv2dGeometry& g, const Tensor& x, const Tensor& w,
                        const Tensor& w_scale, const Tensor& bias, const QuantizedEpilogue& then) {
  const Requantization numbers = requantization(w_scale, bias, then);
  const Tensor y = empty_in(kChannelsLast, g.y_shape(), then.dtype, kCPU);
  if (y.numel() == 0) return y;
  if (!g.is_trivial() && fast_quantized_conv2d(g, y, x, w, numbers, then)) return y;
  const Tensor filters = wide_filters(g, w);
  Convolution(g, y, x, filters, numbers, then).run();
  return y;
}

}  // namespace lathe::cpu
