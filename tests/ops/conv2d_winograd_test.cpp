// Winograd convolution against f64, whose passes are matrix products (conv2d_im2col_cpu.cpp): all
// passes, both tiles, awkward sizes, numbers of threads. Which sizes it is
// chosen for: conv2d_choice_test.cpp.
#include "lathe/ops/conv/cpu/conv2d_winograd_cpu.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "lathe/ops/cast.h"
#include "lathe/ops/conv/cpu/winograd_tiles.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/tests/threads_scope.h"
#include "moments_error.h"
#include "relative_error.h"

using namespace lathe;
using namespace lathe::test;

namespace {

struct WinogradCase {
  const char* name;
  Shape x;
  int64_t out;
  Pair pad;
  Pair stride = 1;

  Conv2dOptions options() const { return {.stride = stride, .pad = pad}; }
};

const WinogradCase kCases[] = {
    {"ResNet stage 1", {3, 64, 16, 16}, 64, 1},
    {"several blocks of channels", {2, 130, 8, 8}, 200, 1},
    {"ResNet stage 4", {9, 256, 4, 4}, 256, 1},
    {"no whole tile", {1, 16, 7, 5}, 16, 1},
    {"no whole vector", {2, 17, 9, 10}, 33, 1},
    {"one channel", {2, 1, 6, 6}, 1, 1},
    {"one pixel", {3, 5, 1, 1}, 4, 1},
    {"one row", {1, 3, 1, 19}, 2, 1},
    {"unpadded", {2, 20, 11, 10}, 24, 0},
    {"one output", {2, 8, 3, 3}, 8, 0},
    {"wide padding", {1, 4, 5, 6}, 3, {2, 4}},
    {"padding on one side only", {1, 4, 6, 5}, 3, {0, 1}},
    {"more than one block of tiles", {13, 16, 24, 20}, 8, 1},
    {"several blocks of tiles and of channels", {6, 72, 24, 20}, 136, 1},
    {"stride 2, ResNet stage 2", {3, 64, 16, 16}, 128, 1, 2},
    {"stride 2, several blocks of tiles and of channels", {5, 72, 24, 40}, 136, 1, 2},
    {"stride 2, odd sizes", {2, 20, 9, 13}, 24, 1, 2},
    {"stride 2, no whole vector", {1, 17, 7, 22}, 5, 1, 2},
    {"stride 2, unpadded", {2, 16, 11, 18}, 8, 0, 2},
    {"stride 2, wide padding", {1, 4, 5, 6}, 3, {2, 3}, 2},
    {"stride 2, one output", {2, 8, 3, 4}, 8, 0, 2},
    {"stride 2, one pixel", {3, 5, 1, 1}, 4, 1, 2},
};

struct Passes {
  Tensor y, dx, dw, moments;
};

/// All three passes, with the filters and their gradient in `format`.
Passes by_winograd(const WinogradCase& c, cpu::WinogradTile tile, MemoryFormat format,
                   const Tensor& x, const Tensor& w, const Tensor& bias, const Tensor& dy) {
  const auto g = conv2d_geometry("test", x.shape(), w.shape(), c.options());
  const auto nan = [](MemoryFormat order, const Shape& shape) {  // every element must be written
    return full(shape, NAN, {.dtype = kF32}).contiguous(order);
  };
  Passes p{nan(kChannelsLast, g.y_shape()),
           nan(kChannelsLast, g.x_shape()),
           nan(format, g.w_shape()),
           {}};
  const Tensor filters = w.contiguous(format);
  cpu::winograd_forward(g, tile, p.y, x, filters, bias, {}, &p.moments);
  cpu::winograd_backward_input(g, tile, p.dx, dy, filters);
  cpu::winograd_backward_weight(g, tile, p.dw, dy, x);
  return p;
}

struct Operands {
  Tensor x, w, bias, dy;
};

Operands operands_of(const WinogradCase& c) {
  manual_seed(5);
  const Shape w{c.out, c.x[1], 3, 3};
  const auto g = conv2d_geometry("test", c.x, w, c.options());
  return {randn(c.x).contiguous(kChannelsLast), randn(w), randn({c.out}),
          randn(g.y_shape()).contiguous(kChannelsLast)};
}

}  // namespace

TEST_CASE("winograd: all passes agree with f64") {
  for (const WinogradCase& c : kCases) {
    CAPTURE(c.name);
    const auto [x, w, bias, dy] = operands_of(c);
    const Conv2dOptions opt = c.options();
    const Tensor x64 = cast(x, kF64), w64 = cast(w, kF64), dy64 = cast(dy, kF64);
    const Tensor y64 =
        conv2d(x64, w64, {.bias = cast(bias, kF64), .stride = c.stride, .pad = c.pad});
    const Tensor dx64 = conv2d_input_grad(dy64, w64, x.shape(), opt);
    const Tensor dw64 = conv2d_weight_grad(dy64, x64, w.shape(), opt);
    for (const auto tile : {cpu::WinogradTile::k4, cpu::WinogradTile::k2}) {
      if (tile == cpu::WinogradTile::k2 && c.stride == Pair(2)) continue;  // there is none
      // Twice what 512 channels give, values normal (docs/results/winograd-errors.json). Direct sums: 2e-6.
      const double bound = tile == cpu::WinogradTile::k4 ? 1e-5 : 2e-6;
      CAPTURE(bound);
      for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
        const Passes p = by_winograd(c, tile, format, x, w, bias, dy);
        CHECK(relative_error(p.y, y64) <= bound);
        CHECK(relative_error(p.dx, dx64) <= bound);
        CHECK(relative_error(p.dw, dw64) <= bound);
        CHECK(moments_error(p.moments, p.y) <= 5e-6);  // f32 sums of up to 1152 values
      }
    }
  }
}

TEST_CASE("winograd: any number of threads gives the same bits") {
  for (const WinogradCase& c : kCases) {
    CAPTURE(c.name);
    const auto [x, w, bias, dy] = operands_of(c);
    const auto values = [&](int threads) {
      const ThreadsScope scope(threads);
      const Passes p = by_winograd(c, cpu::WinogradTile::k4, kContiguous, x, w, bias, dy);
      return std::vector{p.y.to_vector<float>(), p.dx.to_vector<float>(), p.dw.to_vector<float>(),
                         p.moments.to_vector<float>()};
    };
    const auto one = values(1);
    CHECK(values(2) == one);
    CHECK(values(7) == one);
    CHECK(values(16) == one);
  }
}

TEST_CASE("winograd: what is fetched for tiles are their pixels, and nothing beside the images") {
  using namespace cpu::winograd;
  for (const Shape& shape : {Shape{2, 16, 12, 12}, Shape{3, 8, 7, 9}, Shape{2, 24, 1, 19}}) {
    CAPTURE(shape);
    const auto g = conv2d_geometry("test", shape, {16, shape[1], 3, 3}, {.pad = 1});
    const Tiles tiles = tiles_of(g, cpu::WinogradTile::k4);
    const Tensor x = zeros(shape).contiguous(kChannelsLast);
    const Images<const float> images{x.data<float>(), g.H, g.W, g.C};
    for (const int64_t first : {int64_t{0}, tiles.count / 2, tiles.count, tiles.count + 3}) {
      constexpr int64_t kCount = 5;
      const FetchedMemory rows = tiles.rows_of(images, first, kCount, tiles.kernels.step);
      const int64_t last = std::min(first + kCount, tiles.count);
      CHECK((rows.floats > 0) == (first < last));
      if (rows.floats == 0) continue;
      CHECK(rows.data >= images.data);
      CHECK(rows.data + rows.floats <= images.data + x.numel());
      PixelTable<const float> pixels;
      for (int64_t tile = first; tile < last; ++tile) {
        tiles.outputs(pixels, images, tiles.place(tile), 0, &kZeros[0]);
        for (int64_t i = 0; i < 16; ++i) {
          if (pixels[size_t(i)] == &kZeros[0]) continue;
          CHECK(pixels[size_t(i)] >= rows.data);
          CHECK(pixels[size_t(i)] + g.C <= rows.data + rows.floats);
        }
      }
      constexpr int64_t kShares = 7;
      const float* end = rows.data;  // of the shares so far; rounding leaves out less than a line
      for (int64_t i = 0; i < kShares; ++i) {
        cpu::WinogradProduct p{};
        rows.share(p, i, kShares);
        CHECK((p.fetch >= end && p.fetch - end <= 1));
        end = p.fetch + p.fetch_floats;
      }
      CHECK(rows.data + rows.floats - end <= 1);
    }
  }
}

TEST_CASE("winograd: conv2d uses it for NHWC tensors and views of any order, unless exact") {
  manual_seed(6);
  const Tensor all = randn({4, 32, 10, 24});  // row-major; the view below is neither order
  const Tensor view = all.contiguous(kChannelsLast).slice(3, 2, 22), w = randn({16, 32, 3, 3});
  const Tensor x = view.contiguous(kChannelsLast);
  const auto g = conv2d_geometry("test", x.shape(), w.shape(), {.pad = 1});
  const Tensor expected = empty_in(kChannelsLast, g.y_shape(), kF32, kCPU);
  cpu::winograd_forward(g, cpu::WinogradTile::k4, expected, x, w, {});
  CHECK(conv2d(x, w, {.pad = 1}).to_vector<float>() == expected.to_vector<float>());
  CHECK(relative_error(conv2d(view, w, {.pad = 1}), expected) <= 1e-5);
  cpu::set_conv_exact(true);
  CHECK(conv2d(x, w, {.pad = 1}).to_vector<float>() != expected.to_vector<float>());
  cpu::set_conv_exact(false);
}
