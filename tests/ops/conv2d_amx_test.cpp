// The weight gradient in tile registers (conv2d_amx_cpu.h) against sums in f64: with plain loops on
// any processor, with the instructions where they are.
#include "lathe/ops/conv/cpu/conv2d_amx_cpu.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "lathe/core/copy.h"
#include "lathe/core/tensor.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/conv/cpu/conv2d_engines_cpu.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/matmul_kernels/amx_kernels.h"
#include "lathe/ops/memory_format.h"
#include "lathe/ops/random.h"

using namespace lathe;

namespace {

struct AmxCase {
  const char* name;
  Shape x, w;
  Conv2dOptions opt;
};
const AmxCase kCases[] = {
    {"CifarNet's first", {3, 24, 31, 31}, {64, 24, 3, 3}, {.pad = 1}},
    {"7x7", {5, 32, 7, 7}, {32, 32, 3, 3}, {.pad = 1}},
    {"one channel", {2, 1, 5, 6}, {1, 1, 3, 3}, {.pad = 1}},
    {"16 and 31 channels", {2, 16, 6, 5}, {31, 16, 3, 3}, {.pad = 1}},
    {"33 and 65 channels", {2, 33, 4, 4}, {65, 33, 3, 3}, {.pad = 1}},
    {"no padding", {3, 17, 9, 8}, {34, 17, 3, 3}, {}},
    {"1x1", {3, 40, 8, 8}, {48, 40, 1, 1}, {}},
    {"1x1 with padding", {2, 20, 3, 4}, {40, 20, 1, 1}, {.pad = 1}},
    {"a wide filter", {2, 16, 11, 13}, {16, 16, 5, 3}, {.pad = {2, 0}}},
    {"a high pad", {2, 16, 5, 5}, {16, 16, 2, 2}, {.pad = {1, 3}}},
    {"dilated", {2, 16, 12, 9}, {24, 16, 3, 3}, {.pad = 2, .dilation = 2}},
    {"bands of a large image", {2, 64, 70, 61}, {64, 64, 3, 3}, {.pad = 1}},
    {"chunks of two bands", {3, 32, 66, 61}, {96, 32, 3, 3}, {.pad = 1}},
    {"higher than its image and padding", {2, 16, 5, 5}, {16, 16, 2, 2}, {.pad = 3}},
    {"bands of one row", {1, 16, 3, 9000}, {16, 16, 3, 3}, {.pad = 1}},
    {"one pixel", {40, 16, 1, 1}, {16, 16, 3, 3}, {.pad = 1}},
    {"several parts", {70, 16, 15, 15}, {32, 16, 3, 3}, {.pad = 1}},
};

std::vector<cpu::AmxKernels> all_kernels() {
  std::vector<cpu::AmxKernels> all{cpu::amx_kernels_base()};
  if (cpu::has_tile_registers()) all.push_back(cpu::amx_kernels());
  return all;
}

Tensor in(MemoryFormat format, const Tensor& t) {
  const Tensor copy = empty_in(format, t.shape(), kBF16, kCPU);
  copy_values(copy, t);
  return copy;
}

struct Problem {
  explicit Problem(const AmxCase& c) : g(conv2d_geometry("test", c.x, c.w, c.opt)), opt(c.opt) {
    manual_seed(7);
    x = in(kChannelsLast, randn(c.x));
    dy = in(kChannelsLast, randn(g.y_shape()));
  }
  Tensor by(const cpu::AmxKernels& kernels, MemoryFormat format) const {
    const Tensor dw = in(format, full(g.w_shape(), NAN));
    cpu::amx_backward_weight(kernels, g, dw, dy, x);
    return dw;
  }
  /// In f64: of values, or of their absolutes.
  std::vector<double> exact(bool absolute) const {
    const auto wide = [&](const Tensor& t) {
      return absolute ? cast(t, kF64).abs() : cast(t, kF64);
    };
    return conv2d_weight_grad(wide(dy), wide(x), g.w_shape(), opt).to_vector<double>();
  }

  Conv2dGeometry g;
  Conv2dOptions opt;
  Tensor x, dy;
};

}  // namespace

TEST_CASE("conv2d amx: the filters' gradient is the sum in f64, rounded once to bf16") {
  for (const AmxCase& c : kCases) {
    CAPTURE(c.name);
    const Problem problem(c);
    const std::vector<double> want = problem.exact(false), all = problem.exact(true);
    for (const cpu::AmxKernels& kernels : all_kernels()) {
      for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
        const std::vector<double> got = problem.by(kernels, format).to_vector<double>();
        REQUIRE(got.size() == want.size());
        int64_t wrong = 0;
        for (size_t i = 0; i < got.size(); ++i) {
          // Half a unit of bf16, and f32's rounding of up to 100 additions in a row.
          const double most = std::abs(want[i]) / 256 + 1e-5 * all[i];
          if (!(std::abs(got[i] - want[i]) <= most)) ++wrong;
        }
        CHECK(wrong == 0);
      }
    }
  }
}

TEST_CASE("conv2d amx: the engine of that name") {
  const Problem problem(kCases[0]);
  const Tensor dw = in(kContiguous, full(problem.g.w_shape(), NAN));
  cpu::conv2d_backward_weight_by({cpu::CpuEngine::kAmx, kBF16}, problem.g, dw, problem.dy,
                                 problem.x);
  CHECK(dw.to_vector<float>() == problem.by(all_kernels().back(), kContiguous).to_vector<float>());
}

TEST_CASE("conv2d amx: the same bits for any number of threads") {
  const int before = num_threads();
  for (const AmxCase& c : kCases) {
    CAPTURE(c.name);
    const Problem problem(c);
    for (const cpu::AmxKernels& kernels : all_kernels()) {
      set_num_threads(1);
      const std::vector<float> one = problem.by(kernels, kContiguous).to_vector<float>();
      for (const int threads : {2, 5}) {
        set_num_threads(threads);
        CHECK(problem.by(kernels, kContiguous).to_vector<float>() == one);
      }
    }
  }
  set_num_threads(before);
}
