// Loops over quantised elements: rounding, its reverse, and max pooling. Contracts: quantized.h.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "lathe/core/thread_pool.h"
#include "lathe/ops/quantized.h"
#include "lathe/ops/window_kernels/pool2d_math.h"

namespace lathe::cpu {

namespace {

constexpr int64_t kGrain = 16384;  // elements of one task

/// Written without branches or calls, so that it becomes vector code on any processor.
template <class T>
[[gnu::always_inline]] inline void round_all(T* __restrict__ to, const float* __restrict__ from,
                                             float scale, int64_t n) {
  constexpr float kLow = std::numeric_limits<T>::lowest(), kHigh = std::numeric_limits<T>::max();
  constexpr float kNoFraction = 12582912.f;  // 1.5 * 2^23: a sum with it is rounded to an integer
  for (int64_t i = 0; i < n; ++i) {
    float v = from[i] / scale;
    v = v != v ? 0.f : v;
    v = v < kLow ? kLow : v;
    v = v > kHigh ? kHigh : v;
    to[i] = static_cast<T>(static_cast<int32_t>((v + kNoFraction) - kNoFraction));
  }
}

template <class T>
[[gnu::always_inline]] inline void scale_all(float* __restrict__ to, const T* __restrict__ from,
                                             float scale, int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<float>(from[i]) * scale;
}
LATHE_CLONES void dequantize_row(float* to, const uint8_t* from, float scale, int64_t n) {
  scale_all(to, from, scale, n);
}
LATHE_CLONES void dequantize_row(float* to, const int8_t* from, float scale, int64_t n) {
  scale_all(to, from, scale, n);
}

template <class T>
[[gnu::always_inline]] inline void larger_all(T* __restrict__ best, const T* __restrict__ x,
                                              int64_t n) {
  for (int64_t i = 0; i < n; ++i) best[i] = best[i] < x[i] ? x[i] : best[i];
}
LATHE_CLONES void take_larger_row(uint8_t* best, const uint8_t* x, int64_t n) {
  larger_all(best, x, n);
}
LATHE_CLONES void take_larger_row(int8_t* best, const int8_t* x, int64_t n) {
  larger_all(best, x, n);
}

/// Calls f with a value of the type that a u8 or i8 tensor holds.
template <class F>
void visit_quantized(DType dtype, F&& f) {
  if (dtype == kU8) {
    f(uint8_t{0});
  } else {
    f(int8_t{0});
  }
}

}  // namespace

LATHE_CLONES void quantize_row(uint8_t* to, const float* from, float scale, int64_t n) {
  round_all(to, from, scale, n);
}
LATHE_CLONES void quantize_row(int8_t* to, const float* from, float scale, int64_t n) {
  round_all(to, from, scale, n);
}

void quantize(const Tensor& y, const Tensor& x, float scale) {
  visit_quantized(y.dtype(), [&]<class T>(T) {
    parallel_for(x.numel(), kGrain, [&](int64_t begin, int64_t end) {
      quantize_row(y.data<T>() + begin, x.data<float>() + begin, scale, end - begin);
    });
  });
}

void dequantize(const Tensor& y, const Tensor& q, float scale) {
  visit_quantized(q.dtype(), [&]<class T>(T) {
    parallel_for(q.numel(), kGrain, [&](int64_t begin, int64_t end) {
      dequantize_row(y.data<float>() + begin, q.data<T>() + begin, scale, end - begin);
    });
  });
}

void quantized_max_pool2d(const Tensor& y, const Tensor& x, const MaxPool2dOptions& opt) {
  if (y.numel() == 0) return;
  const int64_t channels = x.dim(1), p_count = y.dim(2), q_count = y.dim(3);
  const PoolAxis rows{x.dim(2),        p_count,      opt.kernel.rows,
                      opt.stride.rows, opt.pad.rows, opt.dilation.rows};
  const PoolAxis cols{x.dim(3),        q_count,      opt.kernel.cols,
                      opt.stride.cols, opt.pad.cols, opt.dilation.cols};
  visit_quantized(x.dtype(), [&]<class T>(T) {
    const auto window = [&](T* to, const T* image, int64_t p, int64_t q) {
      std::fill_n(to, channels, std::numeric_limits<T>::lowest());
      for (int64_t r = 0; r < rows.kernel; ++r) {
        if (!rows.holds(p, r)) continue;
        for (int64_t s = 0; s < cols.kernel; ++s) {
          if (!cols.holds(q, s)) continue;
          const int64_t at = rows.place(p, r) * cols.in + cols.place(q, s);
          take_larger_row(to, image + at * channels, channels);
        }
      }
    };
    const int64_t work = q_count * channels;
    parallel_for(y.dim(0) * p_count, std::max<int64_t>(1, kGrain / work),
                 [&](int64_t begin, int64_t end) {
                   for (int64_t item = begin; item < end; ++item) {
                     const T* image = x.data<T>() + item / p_count * rows.in * cols.in * channels;
                     T* to = y.data<T>() + item * work;
                     for (int64_t q = 0; q < q_count; ++q, to += channels)
                       window(to, image, item % p_count, q);
                   }
                 });
  });
}

}  // namespace lathe::cpu
