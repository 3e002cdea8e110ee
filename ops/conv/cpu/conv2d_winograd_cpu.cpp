// Outputs of Winograd convolution and the input's gradient: blocks, threads and memory. Contracts:
// conv2d_winograd_cpu.h; the filters' gradient: conv2d_winograd_grad_cpu.cpp.
#include "lathe/ops/conv/cpu/conv2d_winograd_cpu.h"

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "lathe/core/hooks/memory_tag.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/x86_levels.h"
#include "lathe/ops/conv/cpu/channel_moments_cpu.h"
#include "lathe/ops/conv/cpu/packed_weights_cpu.h"
#include "lathe/ops/conv/cpu/winograd_split.h"
#include "lathe/ops/conv/cpu/winograd_tiles.h"

namespace lathe::cpu {

namespace winograd {

const WinogradKernelSet& kernel_set() {
  static const WinogradKernelSet best = [] {
#if defined(__x86_64__) && defined(__GNUC__)
    if (has_avx512()) return winograd_kernels_avx512();
    if (has_avx2()) return winograd_kernels_avx2();
#endif
    return winograd_kernels_base();
  }();
  return best;
}

static const WinogradKernels& stride1_kernels(WinogradTile tile) {
  return tile == WinogradTile::k4 ? kernel_set().f4 : kernel_set().f2;
}

Tensor scratch(int64_t floats) {
  const profile::MemoryTagScope workspace(profile::MemoryTag::kWorkspace);
  return empty({floats}, {.dtype = kF32});
}

WinogradFilters filters_of(const Tensor& w) {
  WinogradFilters f{w.data<float>(), w.stride(0), w.stride(1), {}};
  for (int64_t tap = 0; tap < 9; ++tap) f.tap[tap] = tap / 3 * w.stride(2) + tap % 3 * w.stride(3);
  return f;
}

Tiles tiles_of(const Conv2dGeometry& g, WinogradTile tile) {
  return {g.stride == Pair(2) ? kernel_set().strided : stride1_kernels(tile), g.N, g.P, g.Q, g.pad};
}

// With stride 2 an image's first tile begins with a pixel that the middle tap reaches: pixel 0 if
// the padding is odd, the one before it if not.
Tiles transposed_tiles_of(const Conv2dGeometry& g, WinogradTile tile) {
  if (g.stride == Pair(1)) {
    return {stride1_kernels(tile), g.N, g.H, g.W, {2 - g.pad.rows, 2 - g.pad.cols}};
  }
  const Pair lead(1 - g.pad.rows % 2, 1 - g.pad.cols % 2);
  const Pair pad((1 + lead.rows - g.pad.rows) / 2, (1 + lead.cols - g.pad.cols) / 2);
  return {kernel_set().strided_transpose, g.N, g.H, g.W, pad, lead};
}

namespace {

WinogradFilters filters_at(const WinogradFilters& w, int64_t out, int64_t in) {
  WinogradFilters at = w;
  at.data += out * w.out_step + in * w.in_step;
  return at;
}

/// The same as those of dx from dy: turned, from K to C channels.
WinogradFilters turned(WinogradFilters f) {
  std::swap(f.in_step, f.out_step);
  std::reverse(std::begin(f.tap), std::end(f.tap));
  return f;
}

/// Convolution of `x` with `filters` to `y`.
class Convolution {
 public:
  Convolution(const Tiles& tiles, const Images<const float>& x, const Images<float>& y,
              const WinogradFilters& filters, const float* bias = nullptr,
              const Conv2dEpilogue& then = {}, bool want_moments = false,
              const PixelNorm& before = {})
      : tiles_(tiles),
        x_(x),
        y_(y),
        filters_(filters),
        bias_(bias),
        then_(then),
        before_(before),
        in_blocks_(ceil_div(x.channels, kBlock)),
        out_blocks_(ceil_div(y.channels, kBlock)),
        threads_(num_threads()),
        split_(tiles.count, tiles.positions(), x.channels, y.channels, threads_),
        v_space_(tiles.positions(), split_.block_tiles(), std::min(x.channels, kBlock), lanes()),
        m_space_(tiles.positions(), split_.block_tiles(), std::min(y.channels, kBlock), lanes()),
        u_space_(tiles.filters(), std::min(x.channels, kBlock), std::min(y.channels, kBlock),
                 lanes()) {
    if (want_moments) moments_.emplace(split_.blocks(), y.channels);
  }

  /// Those of y, if they were wanted.
  Tensor moments() const { return moments_->joined(); }

  /// All filters, transformed.
  Tensor all_filters() const {
    Tensor all = scratch(in_blocks_ * out_blocks_ * u_space_.floats);
    float* const u = all.data<float>();
    parallel_for(in_blocks_ * out_blocks_, 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const int64_t in = i % in_blocks_, out = i / in_blocks_;
        transform_filters(in, out * kBlock, outs(out), u + i * u_space_.floats);
      }
    });
    return all;
  }

  /// Computes y. `kept`: all_filters() of an earlier call, or undefined.
  void run(const Tensor& kept = {}) {
    const Tensor all = kept.defined() || split_.transforms_filters() ? kept : all_filters();
    if (all.defined()) u_ = all.data<float>();
    parallel_for(split_.tasks(), 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) run_task(split_[i]);
    });
  }

 private:
  int64_t lanes() const { return tiles_.kernels.lanes; }
  int64_t ins(int64_t block) const { return std::min(kBlock, x_.channels - block * kBlock); }
  int64_t outs(int64_t block) const { return std::min(kBlock, y_.channels - block * kBlock); }

  /// Those of block `in` of inputs and `outs` outputs from channel `out` on.
  void transform_filters(int64_t in, int64_t out, int64_t outs, float* u) const {
    tiles_.kernels.transform_filters(u_space_.at(u), filters_at(filters_, out, in * kBlock),
                                     ins(in), outs);
  }

  /// A part of the outputs of one block of tiles.
  void run_task(const OutputSplit::Task& task) {
    if (task.tiles == 0 || task.out >= task.last_out) return;
    const int64_t first_out = task.out / kBlock, last_out = ceil_div(task.last_out, kBlock);
    const Tensor memory = scratch(v_space_.floats + (last_out - first_out) * m_space_.floats +
                                  (u_ == nullptr ? u_space_.floats : 0));
    float* const v = memory.data<float>();
    float* const m = v + v_space_.floats;
    float* const own_u = m + (last_out - first_out) * m_space_.floats;
    // f(m, first channel, channels) for each block of outputs.
    const auto for_outs = [&](auto f) {
      for (int64_t o = first_out; o < last_out; ++o) {
        const int64_t out = std::max(o * kBlock, task.out);
        f(m + (o - first_out) * m_space_.floats, out,
          std::min((o + 1) * kBlock, task.last_out) - out);
      }
    };
    for (int64_t in = 0; in < in_blocks_; ++in) {
      transform_input(v, task.first, task.tiles, in);
      for_outs([&](float* to, int64_t out, int64_t outs) {
        const float* u = own_u;
        if (u_ != nullptr) {
          const int64_t block = out / kBlock;
          u = u_ + (block * in_blocks_ + in) * u_space_.floats + out % kBlock;
        } else {
          transform_filters(in, out, outs, own_u);
        }
        multiply(to, v, u, task, in, outs);
      });
    }
    for_outs(
        [&](float* from, int64_t out, int64_t outs) { transform_output(from, task, out, outs); });
  }

  void transform_input(float* v, int64_t first, int64_t count, int64_t in) const {
    const WinogradMatrices matrices = v_space_.at(v);
    InputReader reader(tiles_, x_, before_);
    TilePlace place = tiles_.place(first);
    for (int64_t i = 0; i < count; ++i, tiles_.advance(place)) {
      const auto& pixels = reader.tile(place, in * kBlock, ins(in));
      tiles_.kernels.transform_input(row_of(matrices, i), pixels.data(), ins(in));
    }
    // The rows that the products compute beyond these need numbers, because leftovers of other
    // kinds may be denormal, hence slow.
    const int64_t rest = (round_up(count, kWinogradRows) - count) * v_space_.row_step;
    for (int64_t s = 0; s < tiles_.positions(); ++s) {
      std::fill_n(v + s * v_space_.position_step + count * v_space_.row_step, rest, 0.f);
    }
  }

  /// The rows of pixels that the output transform of the task will write.
  FetchedMemory outputs_of(const OutputSplit::Task& task) const {
    return tiles_.rows_of(y_, task.first, task.tiles, tiles_.kernels.outputs);
  }
  /// Those that this thread will probably read next: all threads take tasks in order.
  FetchedMemory next_inputs(const OutputSplit::Task& task) const {
    const int64_t next = task.first + threads_ * split_.block_tiles();
    return tiles_.rows_of(x_, next, split_.block_tiles(), tiles_.kernels.step);
  }

  void multiply(float* m, const float* v, const float* u, const OutputSplit::Task& task, int64_t in,
                int64_t outs) const {
    WinogradProduct p{.c = m,
                      .a = v,
                      .b = u,
                      .c_row = m_space_.row_step,
                      .a_row = v_space_.row_step,
                      .a_col = 1,
                      .b_row = u_space_.row_step,
                      .rows = task.tiles,
                      .depth = ins(in),
                      .cols = outs,
                      .add = in > 0,
                      .fetch = u,
                      .fetch_floats = 0};
    // One block of filters stays in the cache, so pixels are fetched instead.
    const bool is_one = in_blocks_ * out_blocks_ == 1;
    const FetchedMemory outputs = is_one ? outputs_of(task) : FetchedMemory{};
    const FetchedMemory inputs = is_one ? next_inputs(task) : FetchedMemory{};
    const int64_t all = tiles_.positions(), half = all / 2;
    int64_t index = 0;
    tiles_.for_positions([&](int64_t position, int64_t filter) {
      p.c = m + position * m_space_.position_step;
      p.a = v + position * v_space_.position_step;
      p.b = u + filter * u_space_.position_step;
      p.fetch = p.b + u_space_.position_step;
      p.fetch_floats = ins(in) * u_space_.row_step;
      if (is_one && index < half) {
        outputs.share(p, index, half);
      } else if (is_one) {
        inputs.share(p, index - half, all - half);
      }
      ++index;
      tiles_.kernels.product(p);
    });
  }

  void transform_output(float* m, const OutputSplit::Task& task, int64_t out, int64_t outs) {
    alignas(64) float sink[kBlock];
    const WinogradMatrices matrices = m_space_.at(m);
    const Images<const float> residual{
        then_.residual.defined() ? then_.residual.data<float>() : nullptr, y_.rows, y_.cols,
        y_.channels};
    PixelTable<float> pixels;
    PixelTable<const float> residuals;
    const WinogradEpilogue then{bias_ == nullptr ? nullptr : bias_ + out,
                                residual.data == nullptr ? nullptr : residuals.data(), then_.relu};
    BlockMoments sums;
    TilePlace place = tiles_.place(task.first);
    for (int64_t i = 0; i < task.tiles; ++i, tiles_.advance(place)) {
      const bool is_inside = tiles_.outputs(pixels, y_, place, out, sink);
      if (residual.data != nullptr) {
        tiles_.outputs(residuals, residual, place, out, kZeros);
      }
      tiles_.kernels.transform_output(pixels.data(), row_of(matrices, i), outs, then);
      if (!moments_) continue;
      const auto end = pixels.begin() + tiles_.kernels.outputs * tiles_.kernels.outputs;
      const auto inside = is_inside ? end : std::remove(pixels.begin(), end, &sink[0]);
      sums.add(pixels.data(), inside - pixels.begin(), outs);
    }
    if (moments_) moments_->keep(task.block, out, outs, sums);
  }

  const Tiles& tiles_;
  const Images<const float> x_;
  const Images<float> y_;
  const WinogradFilters filters_;
  const float* const bias_;
  const Conv2dEpilogue then_;
  const PixelNorm before_;
  const int64_t in_blocks_, out_blocks_, threads_;
  const OutputSplit split_;
  const MatrixSpace v_space_, m_space_, u_space_;
  const float* u_ = nullptr;
  std::optional<ChannelMoments> moments_;
};

}  // namespace

}  // namespace winograd

bool winograd_takes(const Conv2dGeometry& g) {
  return g.R == 3 && g.S == 3 && (g.stride == Pair(1) || g.stride == Pair(2)) &&
         g.dilation == Pair(1) && g.groups == 1;
}

namespace {

/// What the transformed filters of one tensor depend on.
struct WinogradForm {
  WinogradTile tile;
  int64_t stride;
  bool operator==(const WinogradForm&) const = default;
};

}  // namespace

void winograd_forward(const Conv2dGeometry& g, WinogradTile tile, const Tensor& y, const Tensor& x,
                      const Tensor& w, const Tensor& bias, const Conv2dEpilogue& then,
                      Tensor* moments, const PixelNorm& before) {
  const winograd::Tiles tiles = winograd::tiles_of(g, tile);
  winograd::Convolution convolution(tiles, {x.data<float>(), g.H, g.W, g.C},
                                    {y.data<float>(), g.P, g.Q, g.K}, winograd::filters_of(w),
                                    bias.defined() ? bias.data<float>() : nullptr, then,
                                    moments != nullptr, before);
  // Of constants alone: transformed filters take up to four times the memory.
  const WinogradForm form{tile, g.stride.rows};
  convolution.run(w.requires_grad() ? Tensor() : packed_weights(w, form, [&] {
    return convolution.all_filters();
  }));
  if (moments != nullptr) *moments = convolution.moments();
}

void winograd_backward_input(const Conv2dGeometry& g, WinogradTile tile, const Tensor& dx,
                             const Tensor& dy, const Tensor& w) {
  const winograd::Tiles tiles = winograd::transposed_tiles_of(g, tile);
  winograd::Convolution(tiles, {dy.data<float>(), g.P, g.Q, g.K}, {dx.data<float>(), g.H, g.W, g.C},
                        winograd::turned(winograd::filters_of(w)))
      .run();
}

}  // namespace lathe::cpu
