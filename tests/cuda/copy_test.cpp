// The kernels of core/gpu/copy_cuda.cu against the CPU's copies: every pair of dtypes, every layout,
// and transpositions of every element size.
#include "lathe/core/copy.h"

#include <doctest/doctest.h>

#include <cstring>
#include <limits>

#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {

std::string bytes_of(const Tensor& t) {  // NaN payloads and signs of zero count
  const Tensor dense = contiguous(t);
  return {static_cast<const char*>(dense.raw_data()), static_cast<size_t>(dense.bytes())};
}

void compare(const Tensor& out_like, const Tensor& src) {
  const Tensor want = out_like.clone(), got = on_device(out_like.clone());
  REQUIRE(want.strides() == got.strides());
  cpu::copy_elements(want, src);
  cuda::copy_elements(got, on_device(src));
  CHECK_MESSAGE(bytes_of(on_host(got)) == bytes_of(want), concat(want), " from ", concat(src));
}

/// Numbers at which conversions differ: ends of ranges, halves, what does not fit, NaN.
Tensor awkward_numbers(DType dtype) {
  const double inf = std::numeric_limits<double>::infinity();
  const double values[] = {0.0,     -0.0,       0.5,   -0.5,     1.0,      -1.0,   1.5,
                           2.5,     127.0,      128.0, 255.0,    256.0,    -129.0, 32768.0,
                           65519.0, 65520.0,    1e-8,  -1e-8,    6.1e-5,   3e9,    -3e9,
                           1e19,    -1e19,      1e300, inf,      -inf,     2049.0, 257.0,
                           4097.0,  16777217.0, 0.1,   -123.456, inf - inf};
  const Tensor wide = empty({33}, {.dtype = kF64});
  std::memcpy(wide.raw_data(), values, sizeof(values));
  return cast(wide, dtype);
}

}  // namespace

TEST_CASE("copy kernels: every pair of dtypes converts as on the CPU, bit for bit") {
  for (int from = 0; from < kNumDTypes; ++from) {
    const Tensor src = awkward_numbers(static_cast<DType>(from));
    for (int to = 0; to < kNumDTypes; ++to) {
      compare(empty({33}, {.dtype = static_cast<DType>(to)}), src);
    }
  }
  for (int i = 0; i < kNumDTypes; ++i) {  // strided
    const auto from = static_cast<DType>(i), to = static_cast<DType>((i + 3) % kNumDTypes);
    const Tensor src = cast(randn({5, 7}), from);
    compare(zeros({5, 7}, {.dtype = to}), layouts()[2].apply(src));
  }
}

TEST_CASE("copy kernels: every half pattern, and the floats where rounding changes, bit for bit") {
  constexpr int kPatterns = 1 << 16;
  for (const DType half : {kF16, kBF16}) {
    const Tensor patterns = empty({kPatterns}, {.dtype = half});
    for (int i = 0; i < kPatterns; ++i)
      static_cast<uint16_t*>(patterns.raw_data())[i] = static_cast<uint16_t>(i);
    compare(empty({kPatterns}, {.dtype = kF32}), patterns);

    // Each value, the middle between it and the next, and the floats on both sides of the middle.
    const Tensor floats = empty({4, kPatterns}, {.dtype = kF32});
    const int below = half == kF16 ? 12 : 15;  // bit of the float that is half a unit of a pattern
    auto* bits = static_cast<uint32_t*>(floats.raw_data());
    std::memcpy(bits, cast(patterns, kF32).raw_data(), kPatterns * sizeof(float));
    for (int i = 0; i < kPatterns; ++i) {
      const uint32_t middle = bits[i] + (1u << below);
      bits[kPatterns + i] = middle;
      bits[2 * kPatterns + i] = middle - 1;
      bits[3 * kPatterns + i] = middle + 1;
    }
    compare(empty({4, kPatterns}, {.dtype = half}), floats);
  }
}

TEST_CASE("copy kernels: layouts, broadcasting, empty and one-element tensors") {
  const Shape shapes[] = {{}, {1}, {31}, {1025}, {7, 45}, {0, 3}, {2, 3, 4, 8}, {3, 1, 5}};
  for (const Shape& shape : shapes) {
    for (const Layout& to : layouts()) {
      for (const Layout& from : layouts()) {
        const Tensor out = on_device(to.apply(zeros(shape)));
        const Tensor src = from.apply(randn(shape));
        cuda::copy_elements(out, on_device(src));
        CHECK_MESSAGE(difference(on_host(out), src, 0).empty(), to.name, " from ", from.name);
      }
    }
  }
  compare(zeros({4, 5, 16}), randn({5, 1}));
  compare(zeros({4, 5, 16}), randn({16}));
  compare(zeros({4, 5}), randn({}));
  compare(zeros({4, 5}, {.dtype = kF16}), full({1}, 2.5));
}

TEST_CASE("copy kernels: transpositions, of every element size and of odd shapes") {
  for (const DType dtype : {kU8, kF16, kF32, kF64}) {
    const Shape shapes[] = {{8, 8}, {33, 65}, {70, 9}, {2, 40, 36}, {130, 7}, {72, 200}};
    for (const Shape& shape : shapes) {
      const Tensor x = cast(randn(shape), dtype);
      compare(zeros(x.transpose(-1, -2).shape(), {.dtype = dtype}), x.transpose(-1, -2));
      compare(zeros(x.transpose(0, -1).shape(), {.dtype = dtype}), x.transpose(0, -1));
    }
    const Tensor image = cast(randn({2, 9, 5, 7}), dtype);
    const Tensor nhwc =
        empty_strided(image.shape(), channels_last_strides(image.shape()), dtype, kCPU);
    compare(nhwc, image);
    compare(image, contiguous(image, kChannelsLast));
  }
  const Tensor x = randn({3, 40, 50});
  compare(zeros({40, 3, 50}).transpose(0, 1).transpose(1, 2),
          x.transpose(1, 2).slice(1, 1, 40, 1).narrow(1, 0, 1).expand({3, 50, 40}));
  compare(zeros({5, 50, 40}), randn({40, 50}).t());  // one matrix, five times
}

TEST_CASE("fill kernels: every dtype and layout") {
  for (int d = 0; d < kNumDTypes; ++d) {
    for (const Scalar value : {Scalar(-1.75), Scalar(3), Scalar(true), Scalar(1e30)}) {
      const Tensor want = empty({33}, {.dtype = static_cast<DType>(d)});
      const Tensor got = on_device(empty_like(want));
      cpu::fill_elements(want, value);
      cuda::fill_elements(got, value);
      CHECK(bytes_of(on_host(got)) == bytes_of(want));
    }
  }
  for (const Layout& layout : layouts()) {
    const Tensor x = on_device(layout.apply(zeros({7, 45})));
    cuda::fill_elements(x, 2.5);
    CHECK(difference(on_host(x), full({7, 45}, 2.5), 0) == "");
  }
  cuda::fill_elements(on_device(zeros({0, 3})), 1);
}
