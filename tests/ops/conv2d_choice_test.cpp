// Which engine a CPU takes (conv2d_choice_cpu.h), for keys on machines that are described.
#include "lathe/ops/conv/cpu/conv2d_choice_cpu.h"

#include <doctest/doctest.h>

#include <climits>
#include <optional>
#include <string>

#include "lathe/core/error.h"
#include "lathe/ops/conv2d.h"

using namespace lathe;

namespace {

using cpu::CpuConvKey, cpu::CpuConvMachine;

const CpuConvMachine kWithout{};
const CpuConvMachine kAvx2{.onednn = true, .fast_short_rows = true, .threads = 2};
const CpuConvMachine kAvx512{.onednn = true, .winograd = true, .threads = 2};  // oneDNN 2
const CpuConvMachine kBf16{.onednn = true, .bf16 = true, .threads = 2};
const CpuConvMachine kAmx{.onednn = true, .bf16 = true, .tiles = true, .threads = 2};

constexpr ConvPass kForward = ConvPass::kForward, kInput = ConvPass::kBackwardInput,
                   kWeight = ConvPass::kBackwardWeight;

CpuConvKey key_of(const Shape& x, const Shape& w, const Conv2dOptions& opt, DType dtype,
                  MemoryFormat format = kChannelsLast, ConvPass pass = kForward) {
  return {.pass = pass, .g = conv2d_geometry("test", x, w, opt), .format = format, .dtype = dtype};
}

std::string chosen(const CpuConvKey& key, const CpuConvMachine& machine) {
  return concat(cpu::conv2d_choice(key, machine));
}

std::optional<cpu::WinogradTile> tile_of(const Shape& x, const Shape& w, const Conv2dOptions& opt,
                                         bool constant_filters) {
  CpuConvKey key = key_of(x, w, opt, kF32);
  key.constant_filters = constant_filters;
  return cpu::winograd_tile(cpu::conv2d_choice(key, kWithout).engine);
}

/// A layer, and what is chosen for it on each machine.
struct Layer {
  const char* name;
  Shape x, w;
  Conv2dOptions opt;
};
const Layer kBlock{"a block of ResNet-18", {64, 64, 32, 32}, {64, 64, 3, 3}, {.pad = 1}};
const Layer kStem{"its stem", {64, 3, 32, 32}, {64, 3, 3, 3}, {.pad = 1}};
const Layer kShortcut{"a shortcut", {64, 64, 32, 32}, {128, 64, 1, 1}, {.stride = 2}};
const Layer kLast{"the last block", {64, 512, 4, 4}, {512, 512, 3, 3}, {.pad = 1}};
const Layer kStrided{
    "a block that halves", {64, 256, 8, 8}, {512, 256, 3, 3}, {.stride = 2, .pad = 1}};
const Layer kDepthwise{"a depthwise one", {8, 32, 7, 7}, {32, 1, 3, 3}, {.pad = 1, .groups = 32}};
const Layer kWide{"a depthwise one, 5x5", {8, 32, 7, 7}, {32, 1, 5, 5}, {.pad = 2, .groups = 32}};
const Layer kFast{
    "a depthwise one, stride 9", {8, 32, 19, 19}, {32, 1, 3, 3}, {.stride = 9, .groups = 32}};
const Layer kGrey{"one of one channel", {8, 1, 7, 7}, {1, 1, 3, 3}, {.pad = 1}};
const Layer kThin{"one of 15 channels", {64, 15, 16, 16}, {32, 15, 3, 3}, {.pad = 1}};
const Layer kEight{"one of 8x8", {64, 64, 8, 8}, {64, 64, 3, 3}, {.pad = 1}};
const Layer kFew{"too few tasks", {8, 64, 16, 16}, {32, 64, 3, 3}, {.pad = 1}};
const Layer kFar{"far apart",
                 {1, 16, 7, 8},
                 {16, 16, 2, 2},
                 {.pad = {1 << 29, (1 << 30) - 8}, .dilation = {(1 << 30) - 1, INT_MAX - 15}}};
const Layer kOdd{"a 1x1 of ShuffleNet", {32, 58, 8, 8}, {58, 58, 1, 1}, {}};
const Layer kNarrow{"one of 2x2", {8, 32, 2, 2}, {32, 1, 3, 3}, {.pad = 1, .groups = 32}};

struct Row {
  Layer layer;
  DType dtype;
  MemoryFormat format;
  ConvPass pass;
  const char *without, *avx2, *avx512, *bf16, *amx;
};
const Row kRows[] = {
    {kBlock, kF32, kChannelsLast, kForward, "winograd4 f32", "winograd4 f32", "winograd4 f32",
     "winograd4 f32", "winograd4 f32"},
    {kBlock, kF32, kContiguous, kForward, "im2col f32", "onednn_blocks f32", "onednn_winograd f32",
     "onednn_blocks f32", "onednn_blocks f32"},
    {kBlock, kBF16, kChannelsLast, kForward, "winograd4 f32", "winograd4 f32", "winograd4 f32",
     "winograd4 f32", "onednn_nhwc bf16"},
    {kStem, kF32, kChannelsLast, kForward, "im2col f32", "onednn_nhwc f32", "onednn_nhwc f32",
     "onednn_nhwc f32", "onednn_nhwc f32"},
    {kStem, kF32, kContiguous, kForward, "im2col f32", "onednn_blocks f32", "onednn_blocks f32",
     "onednn_blocks f32", "onednn_blocks f32"},
    {kStem, kBF16, kChannelsLast, kForward, "im2col f32", "onednn_nhwc f32", "onednn_nhwc f32",
     "onednn_nhwc bf16", "onednn_nhwc bf16"},
    {kShortcut, kF32, kChannelsLast, kForward, "products f32", "products f32", "products f32",
     "products f32", "products f32"},
    {kShortcut, kBF16, kChannelsLast, kForward, "products f32", "products f32", "products f32",
     "onednn_nhwc bf16", "onednn_nhwc bf16"},
    {kLast, kF32, kChannelsLast, kForward, "winograd4 f32", "winograd4 f32", "winograd4 f32",
     "winograd4 f32", "winograd4 f32"},
    {kLast, kF32, kContiguous, kForward, "im2col f32", "onednn_blocks f32", "onednn_winograd f32",
     "onednn_blocks f32", "onednn_blocks f32"},
    {kLast, kBF16, kChannelsLast, kForward, "winograd4 f32", "winograd4 f32", "winograd4 f32",
     "winograd4 f32", "onednn_nhwc bf16, 13 images side by side"},
    {kStrided, kF32, kChannelsLast, kForward, "winograd4 f32", "winograd4 f32", "winograd4 f32",
     "winograd4 f32", "winograd4 f32"},
    {kStrided, kF32, kContiguous, kForward, "im2col f32", "onednn_blocks f32", "onednn_blocks f32",
     "onednn_blocks f32", "onednn_blocks f32"},
    {kStrided, kBF16, kChannelsLast, kForward, "winograd4 f32", "winograd4 f32", "winograd4 f32",
     "onednn_blocks bf16", "onednn_nhwc bf16, 13 images side by side"},
    {kDepthwise, kF32, kChannelsLast, kForward, "depthwise f32", "onednn_nhwc f32",
     "onednn_nhwc f32", "onednn_nhwc f32", "onednn_nhwc f32"},
    {kDepthwise, kF32, kContiguous, kForward, "im2col f32", "onednn_blocks f32",
     "onednn_blocks f32", "onednn_blocks f32", "onednn_blocks f32"},
    {kDepthwise, kBF16, kChannelsLast, kForward, "depthwise f32", "onednn_nhwc f32",
     "onednn_nhwc f32", "onednn_nhwc bf16", "onednn_nhwc bf16"},
    {kWide, kF32, kChannelsLast, kForward, "depthwise f32", "onednn_nhwc f32", "onednn_nhwc f32",
     "onednn_nhwc f32", "onednn_nhwc f32"},
    {kWide, kF32, kChannelsLast, kInput, "depthwise f32", "onednn_nhwc f32", "onednn_nhwc f32",
     "onednn_nhwc f32", "onednn_nhwc f32"},
    {kWide, kF32, kChannelsLast, kWeight, "depthwise f32", "depthwise f32", "depthwise f32",
     "depthwise f32", "depthwise f32"},
    {kWide, kBF16, kChannelsLast, kWeight, "depthwise f32", "depthwise f32", "depthwise f32",
     "depthwise f32", "depthwise f32"},
    {kWide, kF32, kContiguous, kWeight, "im2col f32", "onednn_blocks f32", "onednn_blocks f32",
     "onednn_blocks f32", "onednn_blocks f32"},
    {kFast, kF32, kChannelsLast, kForward, "im2col f32", "onednn_nhwc f32", "onednn_nhwc f32",
     "onednn_nhwc f32", "onednn_nhwc f32"},
    {kGrey, kF32, kChannelsLast, kForward, "depthwise f32", "onednn_nhwc f32", "onednn_blocks f32",
     "onednn_blocks f32", "onednn_blocks f32"},
    {kNarrow, kF32, kChannelsLast, kInput, "depthwise f32", "onednn_nhwc f32", "onednn_nhwc f32",
     "onednn_nhwc f32", "onednn_nhwc f32"},
    {kNarrow, kF32, kChannelsLast, kWeight, "depthwise f32", "depthwise f32", "depthwise f32",
     "depthwise f32", "depthwise f32"},
    {kOdd, kF32, kChannelsLast, kWeight, "products f32", "products f32", "products f32",
     "products f32", "products f32"},
    {kLast, kBF16, kContiguous, kForward, "im2col f32", "onednn_blocks f32", "onednn_winograd f32",
     "onednn_blocks bf16", "onednn_blocks bf16"},
    {kLast, kBF16, kChannelsLast, kInput, "winograd4 f32", "winograd4 f32", "winograd4 f32",
     "winograd4 f32", "onednn_nhwc bf16, 13 images side by side"},
    {kStrided, kBF16, kChannelsLast, kInput, "winograd4 f32", "winograd4 f32", "winograd4 f32",
     "onednn_nhwc bf16", "onednn_nhwc bf16, 13 images side by side"},
    {kDepthwise, kF32, kChannelsLast, kInput, "depthwise f32", "onednn_nhwc f32", "onednn_nhwc f32",
     "onednn_nhwc f32", "onednn_nhwc f32"},
    {kBlock, kF32, kContiguous, kInput, "im2col f32", "onednn_blocks f32", "onednn_winograd f32",
     "onednn_blocks f32", "onednn_blocks f32"},
    {kBlock, kBF16, kChannelsLast, kWeight, "winograd4 f32", "winograd4 f32", "winograd4 f32",
     "winograd4 f32", "amx bf16"},
    {kEight, kBF16, kChannelsLast, kWeight, "winograd4 f32", "winograd4 f32", "winograd4 f32",
     "winograd4 f32", "amx bf16"},
    {kBlock, kBF16, kChannelsLast, kInput, "winograd4 f32", "winograd4 f32", "winograd4 f32",
     "winograd4 f32", "onednn_nhwc bf16"},
    {kBlock, kBF16, kContiguous, kWeight, "im2col f32", "onednn_blocks f32", "onednn_winograd f32",
     "onednn_blocks bf16", "onednn_blocks bf16"},
    {kFew, kBF16, kChannelsLast, kWeight, "winograd4 f32", "winograd4 f32", "winograd4 f32",
     "winograd4 f32", "onednn_nhwc bf16"},
    {kFar, kBF16, kChannelsLast, kWeight, "im2col f32", "onednn_nhwc f32", "onednn_nhwc f32",
     "onednn_nhwc bf16", "onednn_nhwc bf16"},
    {kThin, kBF16, kChannelsLast, kWeight, "im2col f32", "onednn_nhwc f32", "onednn_nhwc f32",
     "onednn_nhwc bf16", "onednn_nhwc bf16"},
    {kOdd, kBF16, kChannelsLast, kWeight, "products f32", "products f32", "products f32",
     "onednn_nhwc bf16", "onednn_nhwc bf16, 8 images side by side"},
    {kLast, kBF16, kChannelsLast, kWeight, "winograd4 f32", "winograd4 f32", "winograd4 f32",
     "winograd4 f32", "onednn_nhwc bf16, 13 images side by side"},
    {kStrided, kBF16, kChannelsLast, kWeight, "winograd4 f32", "winograd4 f32", "winograd4 f32",
     "onednn_nhwc bf16", "onednn_nhwc bf16, 13 images side by side"},
    {kDepthwise, kF32, kChannelsLast, kWeight, "depthwise f32", "onednn_nhwc f32",
     "onednn_nhwc f32", "onednn_nhwc f32", "onednn_nhwc f32"},
    {kBlock, kF32, kContiguous, kWeight, "im2col f32", "onednn_blocks f32", "onednn_winograd f32",
     "onednn_blocks f32", "onednn_blocks f32"},
    {kStem, kF16, kChannelsLast, kForward, "im2col f32", "onednn_nhwc f32", "onednn_nhwc f32",
     "onednn_nhwc f32", "onednn_nhwc f32"},
    {kBlock, kF16, kChannelsLast, kWeight, "winograd4 f32", "winograd4 f32", "winograd4 f32",
     "winograd4 f32", "winograd4 f32"},
    {kBlock, kF64, kChannelsLast, kForward, "im2col f64", "im2col f64", "im2col f64", "im2col f64",
     "im2col f64"},
};

}  // namespace

TEST_CASE("conv2d choice: an engine for each key and machine") {
  for (const Row& row : kRows) {
    CAPTURE(row.layer.name);
    CAPTURE(concat(row.dtype));
    CAPTURE(row.format == kChannelsLast);
    CAPTURE(static_cast<int>(row.pass));
    const CpuConvKey key =
        key_of(row.layer.x, row.layer.w, row.layer.opt, row.dtype, row.format, row.pass);
    CHECK(chosen(key, kWithout) == row.without);
    CHECK(chosen(key, kAvx2) == row.avx2);
    CHECK(chosen(key, kAvx512) == row.avx512);
    CHECK(chosen(key, kBf16) == row.bf16);
    CHECK(chosen(key, kAmx) == row.amx);
  }
}

TEST_CASE("conv2d choice: exact takes no Winograd, ours or oneDNN's") {
  for (const MemoryFormat format : {kContiguous, kChannelsLast}) {
    for (const CpuConvMachine& machine : {kWithout, kAvx2, kAvx512}) {
      CpuConvKey key = key_of(kBlock.x, kBlock.w, kBlock.opt, kF32, format);
      CHECK(chosen(key, kAvx512).find("winograd") != std::string::npos);
      key.exact = true;
      CHECK(chosen(key, machine).find("winograd") == std::string::npos);
    }
  }
  cpu::set_conv_exact(true);
  CHECK(key_of(kBlock.x, kBlock.w, kBlock.opt, kF32).exact);
  cpu::set_conv_exact(false);
}

TEST_CASE(
    "conv2d choice: bf16 whose filters are constant is f32 where Winograd is four times as good") {
  // 16 tiles: F(4x4,3x3) decides on f32, F(2x2,3x3) computes.
  CpuConvKey key = key_of({16, 64, 4, 4}, {64, 64, 3, 3}, {.pad = 1}, kBF16);
  CHECK(chosen(key, kBf16) == "winograd4 f32");
  key.constant_filters = true;
  CHECK(chosen(key, kBf16) == "winograd2 f32");
}

TEST_CASE("conv2d choice: more threads get more strips, down to one image each") {
  CpuConvMachine machine = kAmx;
  const CpuConvKey key = key_of(kLast.x, kLast.w, kLast.opt, kBF16);
  machine.threads = 16;
  CHECK(chosen(key, machine) == "onednn_nhwc bf16, 4 images side by side");
  machine.threads = 64;
  CHECK(chosen(key, machine) == "onednn_blocks bf16");
}

TEST_CASE("conv2d choice: what oneDNN cannot count is im2col") {
  const CpuConvKey key =
      key_of(kStem.x, kStem.w, {.stride = Pair(int64_t{1} << 33, 1), .pad = 1}, kF32);
  CHECK(chosen(key, kAvx512) == "im2col f32");
}

TEST_CASE("conv2d choice: Winograd is taken for 3x3 kernels with enough channels and tiles") {
  using Tile = std::optional<cpu::WinogradTile>;
  const auto choice = [](const Shape& x, const Shape& w, const Conv2dOptions& opt) {
    return tile_of(x, w, opt, false);
  };
  const Tile k4 = cpu::WinogradTile::k4, k2 = cpu::WinogradTile::k2, none;
  CHECK(choice({64, 64, 32, 32}, {64, 64, 3, 3}, {.pad = 1}) == k4);
  CHECK(choice({1, 16, 16, 16}, {32, 16, 3, 3}, {}) == k4);
  CHECK(choice({16, 512, 4, 4}, {512, 512, 3, 3}, {.pad = 1}) == k4);
  CHECK(choice({16, 64, 6, 6}, {64, 64, 3, 3}, {.pad = 1}) == k2);       // as many products
  CHECK(choice({15, 512, 4, 4}, {512, 512, 3, 3}, {.pad = 1}) == none);  // 15 tiles
  CHECK(choice({64, 64, 1, 9}, {64, 64, 3, 3}, {.pad = 1}) == none);     // mostly padding
  CHECK(choice({64, 8, 32, 32}, {64, 8, 3, 3}, {.pad = 1}) == none);     // the transforms dominate
  CHECK(choice({64, 17, 32, 32}, {64, 17, 3, 3}, {.pad = 1}) == none);   // and their last vectors
  CHECK(choice({64, 64, 32, 32}, {128, 64, 3, 3}, {.stride = 2, .pad = 1}) == k4);
  CHECK(choice({15, 128, 32, 32}, {128, 128, 3, 3}, {.stride = 2, .pad = 1}) == none);  // 240 tiles
  CHECK(choice({16, 256, 8, 8}, {512, 256, 3, 3}, {.stride = 2, .pad = 1}) == k4);  // large filters
  CHECK(choice({64, 16, 32, 32}, {32, 16, 3, 3}, {.stride = 2, .pad = 1}) == none);
  CHECK(choice({64, 64, 32, 32}, {64, 64, 3, 3}, {.stride = {2, 1}, .pad = 1}) == none);
  CHECK(choice({64, 64, 32, 32}, {64, 64, 3, 3}, {.stride = 3, .pad = 1}) == none);
  CHECK(choice({64, 64, 32, 32}, {64, 64, 3, 3}, {.dilation = 2}) == none);
  CHECK(choice({64, 64, 32, 32}, {64, 32, 3, 3}, {.groups = 2}) == none);
  CHECK(choice({64, 64, 32, 32}, {64, 64, 1, 1}, {}) == none);

  const auto of_constants = [](const Shape& x, const Shape& w, const Conv2dOptions& opt) {
    return tile_of(x, w, opt, true);
  };
  CHECK(of_constants({1, 512, 7, 7}, {512, 512, 3, 3}, {.pad = 1}) == k2);    // 4 tiles
  CHECK(of_constants({1, 256, 14, 14}, {256, 256, 3, 3}, {.pad = 1}) == k2);  // 16
  CHECK(of_constants({1, 128, 28, 28}, {128, 128, 3, 3}, {.pad = 1}) == k4);  // 49
  CHECK(of_constants({1, 512, 4, 4}, {512, 512, 3, 3}, {.pad = 1}) == none);  // 1
  CHECK(of_constants({1, 256, 14, 14}, {512, 256, 3, 3}, {.stride = 2, .pad = 1}) == none);
}
