// The choice of a CPU's engine, from sizes, dtype, order in memory and processor. Contracts:
// conv2d_choice_cpu.h. The measurements behind the numbers: docs/conv-cpu.md.
#include "lathe/ops/conv/cpu/conv2d_choice_cpu.h"

#include <algorithm>
#include <climits>

#include "lathe/core/ceil_div.h"
#include "lathe/core/error.h"
#include "lathe/core/visit.h"
#include "lathe/ops/conv/cpu/conv2d_amx_cpu.h"
#include "lathe/ops/conv/cpu/conv2d_depthwise_cpu.h"
#include "lathe/ops/conv/cpu/conv2d_dnnl.h"
#include "lathe/ops/conv/cpu/conv2d_pointwise_cpu.h"
#include "lathe/ops/conv/cpu/conv2d_strips_cpu.h"

namespace lathe::cpu {

namespace {

constexpr std::string_view kNames[] = {"winograd4",       "winograd2",   "products",
                                       "depthwise",       "im2col",      "amx",
                                       "onednn_winograd", "onednn_nhwc", "onednn_blocks"};

/// The tile with which our own Winograd is faster than direct convolution in all three passes, if
/// there is one: from 16 channels and 16 tiles on, measured against oneDNN with AVX-512 and AVX2.
/// Below that the transforms of filters cost more than Winograd saves. With stride 2 from 32
/// channels and 256 tiles on, or with large filters, which oneDNN reorders. F(2x2,3x3) where
/// F(4x4,3x3) would compute as many products, for outputs that nobody wants: 5x5, 6x6 and 2x2
/// images.
/// Constant filters are transformed once for many calls. Then 4 tiles are enough, and up to 16 of
/// them F(2x2,3x3) is faster: moving the filters through memory takes the time, and its filters are
/// less than half.
std::optional<WinogradTile> faster_tile(const Conv2dGeometry& g, bool constant_filters) {
  constexpr int64_t kMinChannels = 16, kChannelStep = 8, kMinTiles = 16, kMinSide = 2;
  constexpr int64_t kMinStridedChannels = 32, kMinStridedTiles = 256;
  constexpr int64_t kMinStridedFilters = 128 * 1024;  // which oneDNN would reorder
  constexpr int64_t kMinTilesOfConstants = 4;
  const auto fits = [](int64_t channels) {
    return channels >= kMinChannels && channels % kChannelStep == 0;
  };
  if (!winograd_takes(g) || !fits(g.C) || !fits(g.K)) return {};
  if (std::min({g.H, g.W, g.P, g.Q}) < kMinSide) return {};
  const int64_t large = ceil_div(g.P, int64_t{4}) * ceil_div(g.Q, int64_t{4});
  const int64_t small = ceil_div(g.P, int64_t{2}) * ceil_div(g.Q, int64_t{2});
  const int64_t tiles = g.N * large;
  const bool few = tiles >= kMinTilesOfConstants && tiles <= kMinTiles;
  if (constant_filters && few && g.stride == Pair(1)) return WinogradTile::k2;
  if (tiles < kMinTiles) return {};
  if (g.stride == Pair(2)) {
    const bool is_faster = std::min(g.C, g.K) >= kMinStridedChannels &&
                           (tiles >= kMinStridedTiles || g.C * g.K >= kMinStridedFilters);
    return is_faster ? std::optional(WinogradTile::k4) : std::nullopt;
  }
  return small * 16 <= large * 36 ? WinogradTile::k2 : WinogradTile::k4;
}

/// Our own engine for f32 images in NHWC that takes these sizes.
std::optional<CpuEngine> own_engine(const CpuConvKey& key) {
  if (key.format != kChannelsLast) return {};
  const auto tile = key.exact ? std::nullopt : faster_tile(key.g, key.constant_filters);
  if (tile) return *tile == WinogradTile::k4 ? CpuEngine::kWinograd4 : CpuEngine::kWinograd2;
  if (pointwise_takes(key.g)) return CpuEngine::kProducts;
  if (depthwise_takes(key.g)) return CpuEngine::kDepthwise;
  return {};
}

/// The same if it is faster than oneDNN's. For depthwise convolutions that is only the gradient of
/// filters that have more than 3x3 taps, or more columns than y. oneDNN takes up to ten times as
/// long for those (AVX-512, oneDNN 2.6).
std::optional<CpuEngine> faster_engine(const CpuConvKey& key) {
  constexpr int64_t kMostTaps = 9;
  const std::optional<CpuEngine> own = own_engine(key);
  if (own != CpuEngine::kDepthwise) return own;
  const bool is_large = key.g.R * key.g.S > kMostTaps || key.g.S > key.g.Q;
  return is_large && key.pass == ConvPass::kBackwardWeight ? own : std::nullopt;
}

bool onednn_takes(const Conv2dGeometry& g) {
  constexpr int64_t kMost = INT_MAX;  // oneDNN keeps these numbers as int
  return std::max({g.stride.rows, g.stride.cols, g.pad.rows, g.pad.cols, g.dilation.rows,
                   g.dilation.cols}) <= kMost;
}

/// True where oneDNN's Winograd is 1.2 to 1.9 times as fast as its direct sums, reorders included
/// (AVX-512, batches of 32 to 128). With 32 channels both take the same time. Winograd takes twice
/// as long with 16, and six times as long with one image of 512 channels. oneDNN 2 has it for
/// AVX-512, oneDNN 3 for no x86 processor.
bool onednn_winograd_is_faster(const Conv2dGeometry& g) {
  constexpr int64_t kMinChannels = 64, kMinTiles = 16;
  const int64_t tiles = g.N * ceil_div(g.P, int64_t{4}) * ceil_div(g.Q, int64_t{4});
  return winograd_takes(g) && g.stride == Pair(1) && g.pad.rows <= 1 && g.pad.cols <= 1 &&
         g.C >= kMinChannels && g.K >= kMinChannels && tiles >= kMinTiles;
}

/// False where oneDNN's direct kernels for NHWC are slower than those for blocks: forward with
/// short rows of output, because they divide the work by whole rows. Those of depthwise
/// convolutions do not.
bool onednn_nhwc_is_faster(ConvPass pass, const Conv2dGeometry& g, const CpuConvMachine& machine) {
  constexpr int64_t kShortRow = 8;
  const bool is_depthwise = g.groups > 1 && g.groups == g.C && g.groups == g.K;
  return pass != ConvPass::kForward || g.Q >= kShortRow || g.R * g.S == 1 || is_depthwise ||
         machine.fast_short_rows;
}

/// How many images a strip holds: 1 where they are wide enough or there are no tile registers. A
/// strip's row of outputs has about 64 columns, two tiles of the weight gradient. There are at
/// least as many strips as threads if the batch is that large.
int64_t images_of_strip(ConvPass pass, const Conv2dGeometry& g, const CpuConvMachine& machine) {
  constexpr int64_t kStripColumns = 64;
  const bool narrow = pass == ConvPass::kForward         ? g.Q < 8
                      : pass == ConvPass::kBackwardInput ? g.W <= 8
                                                         : g.Q < 16;
  if (!narrow || !machine.tiles || g.is_trivial() || g.groups != 1 || !fits_strips(g)) return 1;
  const int64_t wanted = ceil_div(kStripColumns, make_conv2d_strips(g, 1).y_pitch());
  const int64_t most = std::max<int64_t>(1, g.N / machine.threads);
  const int64_t strips = ceil_div(g.N, std::min(wanted, most));
  return ceil_div(g.N, strips);
}

/// True where our weight gradient of bf16 in tile registers is faster than oneDNN's: where few
/// products are with zeros, as they are with images of up to 5x5, and there is work for all
/// threads. 1x1 filters were not measured.
bool amx_is_faster(const CpuConvKey& key, const CpuConvMachine& machine) {
  constexpr int64_t kMinChannels = 16;
  constexpr double kMinShare = 0.7;
  const Conv2dGeometry& g = key.g;
  if (!machine.tiles || key.pass != ConvPass::kBackwardWeight || key.format != kChannelsLast ||
      !amx_takes(g) || std::min(g.C, g.K) < kMinChannels || g.R * g.S == 1 || g.is_trivial()) {
    return false;
  }
  const AmxWork work = amx_work(g);
  return work.share >= kMinShare && work.tasks >= machine.threads;
}

CpuChoice onednn_choice(const CpuConvKey& key, DType dtype, const CpuConvMachine& machine) {
  if (dtype == kF32 && !key.exact && machine.winograd && onednn_winograd_is_faster(key.g)) {
    return {CpuEngine::kOneDnnWinograd, dtype};
  }
  if (key.format != kChannelsLast) return {CpuEngine::kOneDnnBlocks, dtype};
  if (dtype == kBF16 && amx_is_faster(key, machine)) return {CpuEngine::kAmx, dtype};
  const int64_t images = dtype == kBF16 ? images_of_strip(key.pass, key.g, machine) : 1;
  const Conv2dGeometry g = images == 1 ? key.g : make_conv2d_strips(key.g, images).strip;
  const bool in_place = onednn_nhwc_is_faster(key.pass, g, machine);
  return {in_place ? CpuEngine::kOneDnnNhwc : CpuEngine::kOneDnnBlocks, dtype, images};
}

/// `machine` is a function, because the answer may need oneDNN to be loaded: it is called only
/// where the choice depends on it.
template <class Machine>
CpuChoice choose(const CpuConvKey& key, const Machine& machine) {
  DType dtype = compute_dtype(key.dtype);
  if (key.dtype == kBF16) {
    // Products of bf16 save half the work at best without tile registers, F(4x4,3x3) saves three
    // quarters: then it takes copies in f32. Our depthwise gradient saves still more.
    CpuConvKey changing = key;
    changing.constant_filters = false;
    const std::optional<CpuEngine> own = faster_engine(changing);
    const bool saves_more =
        own == CpuEngine::kDepthwise ||
        (own == CpuEngine::kWinograd4 && key.g.stride == Pair(1) && !machine().tiles);
    if (!saves_more && machine().bf16 && onednn_takes(key.g)) dtype = kBF16;
  }
  if (const auto own = dtype == kF32 ? faster_engine(key) : std::nullopt) return {*own, dtype};
  const bool by_onednn =
      (dtype == kF32 || dtype == kBF16) && onednn_takes(key.g) && machine().onednn;
  if (by_onednn) return onednn_choice(key, dtype, machine());
  const auto own = dtype == kF32 ? own_engine(key) : std::nullopt;
  return {own.value_or(CpuEngine::kIm2col), dtype};
}

}  // namespace

std::optional<WinogradTile> winograd_tile(CpuEngine engine) {
  if (engine == CpuEngine::kWinograd4) return WinogradTile::k4;
  if (engine == CpuEngine::kWinograd2) return WinogradTile::k2;
  return {};
}

void append_text(std::string& out, const CpuChoice& choice) {
  out += concat(kNames[static_cast<size_t>(choice.engine)], ' ', choice.dtype);
  if (choice.images > 1) out += concat(", ", choice.images, " images side by side");
}

CpuChoice conv2d_choice(const CpuConvKey& key) { return choose(key, conv_machine); }

CpuChoice conv2d_choice(const CpuConvKey& key, const CpuConvMachine& machine) {
  return choose(key, [&]() -> const CpuConvMachine& { return machine; });
}

}  // namespace lathe::cpu
