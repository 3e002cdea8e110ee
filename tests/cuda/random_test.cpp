// The kernels of ops/random_kernels/random_cuda.cu and ops/random_kernels/dropout_cuda.cu against the CPU: the same numbers,
// whatever the device.
#include "lathe/ops/random.h"

#include <doctest/doctest.h>

#include "lathe/core/gpu/graph_draws.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/memory_format.h"
#include "libm_error.h"
#include "on_device.h"

using namespace lathe;
using namespace lathe::test;

namespace {

const Generator::State kStart = {12345,
                                 (uint64_t{1} << 32) - 3};  // the counter's high word changes

constexpr DType kFloats[] = {kF16, kBF16, kF32, kF64};

/// Fills with cpu:: and with cuda::, whose functions are `fill`.
template <class Fill>
void compare(const Tensor& like, double tolerance, Fill fill) {
  const Tensor want = like.clone(), got = on_device(like);
  fill(want, false);
  fill(got, true);
  const std::string text = difference(on_host(got), want, tolerance);
  CHECK_MESSAGE(text.empty(), concat(like), ": ", text);
}

void compare_draw(const Tensor& like, double tolerance, const RandomDraw& draw) {
  compare(like, tolerance, [&](const Tensor& out, bool device) {
    device ? cuda::fill_random(out, draw, kStart) : cpu::fill_random(out, draw, kStart);
  });
}

void compare_uniform(const Tensor& like) { compare_draw(like, 0, UniformDraw{-2, 3}); }

}  // namespace

TEST_CASE("random kernels: uniform numbers equal the CPU's bit for bit") {
  for (const DType dtype : kFloats) {
    for (const int64_t n : {0, 1, 3, 31, 1023, 1025}) compare_uniform(zeros({n}, {.dtype = dtype}));
    for (const Layout& layout : layouts()) {
      compare_uniform(layout.apply(zeros({5, 9}, {.dtype = dtype})));
      compare_uniform(layout.apply(zeros({3, 5, 4}, {.dtype = dtype})));
    }
    for (const Shape& image : {Shape{2, 5, 6, 4}, Shape{2, 5, 3, 3}})
      compare_uniform(zeros(image, {.dtype = dtype}).contiguous(kChannelsLast));
    const Tensor line = zeros({18}, {.dtype = dtype});
    compare_uniform(line.narrow(0, 1, 17));  // dense, but not aligned to a packet
  }
}

// log (1 ulp), its root and cos or sin (2 ulp), and their product, in f32 for all.
TEST_CASE("random kernels: normal numbers equal the CPU's to the error of libm's functions") {
  for (const DType dtype : kFloats) {
    for (const int64_t n : {1, 31, 1025}) {
      compare_draw(zeros({n}, {.dtype = dtype}), libm_error(dtype == kF64 ? kF32 : dtype, 4),
                   NormalDraw{0.5, 2});
    }
  }
}

TEST_CASE("random kernels: integers equal the CPU's, of narrow and of wide spans") {
  const IntegerDraw ranges[] = {
      {0, 1}, {-5, 11}, {3, UINT32_MAX}, {-7, uint64_t{1} << 40}, {INT64_MIN, UINT64_MAX}};
  for (int d = 0; d < kNumDTypes; ++d) {
    const auto dtype = static_cast<DType>(d);
    if (dtype == kBool) continue;
    for (const auto& range : ranges) compare_draw(zeros({77}, {.dtype = dtype}), 0, range);
  }
  compare_draw(zeros({7, 9}, {.dtype = kI64}).t(), 0, IntegerDraw{0, 100});
}

TEST_CASE("random kernels: a start in the GPU's memory, as in a graph, gives the same numbers") {
  const Tensor base = empty({2}, {.dtype = kI64, .device = on_device(zeros({1})).device()});
  cuda::set_random_base(base, {kStart.seed, kStart.offset - 5}, current_stream(base.device()));
  const RandomStart in_memory(base, 5);
  for (const Tensor& like : {zeros({1025}), zeros({2, 5, 6, 4}).contiguous(kChannelsLast)}) {
    compare(like, 0, [&](const Tensor& out, bool device) {
      device ? cuda::fill_random(out, UniformDraw{0, 1}, in_memory)
             : cpu::fill_random(out, UniformDraw{0, 1}, kStart);
    });
    const Tensor x = randn(like.shape()).contiguous(memory_format_of(like));
    compare(like, 0, [&](const Tensor& y, bool device) {
      device ? cuda::dropout(y, on_device(x), 0.5, 2, in_memory)
             : cpu::dropout(y, x, 0.5, 2, kStart);
    });
  }
  CHECK_THROWS_AS(cpu::fill_random(zeros({3}), UniformDraw{0, 1}, in_memory), StateError);
}

TEST_CASE("dropout kernel: drops what the CPU drops and scales the rest alike") {
  for (const DType dtype : kFloats) {
    for (const int64_t n : {0, 1, 3, 31, 1023, 1025}) {
      const Tensor x = randn({n}, {.dtype = dtype});
      for (const double p : {0.3, 1.0}) {
        compare(zeros({n}, {.dtype = dtype}), 0, [&](const Tensor& y, bool device) {
          const double scale = p < 1 ? 1 / (1 - p) : 0;
          device ? cuda::dropout(y, on_device(x), p, scale, kStart)
                 : cpu::dropout(y, x, p, scale, kStart);
        });
      }
    }
    // A counter's four elements lie along one dimension, or they do not.
    for (const Shape& shape : {Shape{2, 5, 6, 4}, Shape{2, 5, 3, 3}}) {
      const Tensor x = randn(shape, {.dtype = dtype}).contiguous(kChannelsLast);
      for (const Tensor& like : {x, zeros(shape, {.dtype = dtype})}) {
        compare(like, 0, [&](const Tensor& y, bool device) {
          device ? cuda::dropout(y, on_device(x), 0.5, 2, kStart)
                 : cpu::dropout(y, x, 0.5, 2, kStart);
        });
      }
    }
    const Tensor line = randn({18}, {.dtype = dtype});
    compare(zeros({17}, {.dtype = dtype}), 0, [&](const Tensor& y, bool device) {
      const Tensor x = line.narrow(0, 1, 17);
      device ? cuda::dropout(y, on_device(x), 0.5, 2, kStart) : cpu::dropout(y, x, 0.5, 2, kStart);
    });
  }
}
