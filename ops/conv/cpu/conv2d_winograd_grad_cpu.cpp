// The gradient of Winograd convolution's filters: parts of the tiles, and their sum. Contract:
// conv2d_winograd_cpu.h.
#include <algorithm>
#include <vector>

#include "lathe/core/thread_pool.h"
#include "lathe/ops/conv/cpu/conv2d_winograd_cpu.h"
#include "lathe/ops/conv/cpu/winograd_split.h"
#include "lathe/ops/conv/cpu/winograd_tiles.h"

namespace lathe::cpu {

namespace winograd {

namespace {

constexpr int64_t kGrain = 32768;  // floats of the parts that are worth another thread

/// The gradient of the filters from x and dy.
class WeightGradient {
 public:
  WeightGradient(const Tiles& tiles, const Images<const float>& x, const Images<const float>& dy,
                 const PixelNorm& before)
      : tiles_(tiles),
        x_(x),
        before_(before),
        dy_(dy),
        split_(tiles.count, tiles.positions(), x.channels, dy.channels, num_threads()),
        parts_(split_.parts()),
        v_space_(tiles.positions(), split_.block_tiles(), std::min(x.channels, kBlock), lanes()),
        p_space_(tiles.filters(), std::min(dy.channels, kBlock), std::min(x.channels, kBlock),
                 lanes()) {}

  void run(const Tensor& dw) {
    const bool in_place = parts_ == 1 && dw.is_contiguous(kChannelsLast);
    const Tensor memory = in_place ? dw : scratch(parts_ * part_floats());
    float* const parts = memory.data<float>();
    parallel_for(split_.tasks(), 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const FilterGradSplit::Task task = split_[i];
        run_task(task, parts + task.part * part_floats());
      }
    });
    if (!in_place) add_parts(dw, parts);
  }

 private:
  int64_t lanes() const { return tiles_.kernels.lanes; }
  int64_t ins(int64_t block) const { return std::min(kBlock, x_.channels - block * kBlock); }
  /// The sums of one part: [out, tap, in].
  int64_t part_floats() const { return 9 * x_.channels * dy_.channels; }

  void run_task(const FilterGradSplit::Task& task, float* sums) const {
    const int64_t in = task.in, out = task.out, outs = task.last_out - out;
    if (outs <= 0) return;
    const MatrixSpace d_space(tiles_.positions(), split_.block_tiles(), outs, lanes());
    const Tensor memory = scratch(v_space_.floats + d_space.floats + p_space_.floats);
    float* const v = memory.data<float>();
    float* const d = v + v_space_.floats;
    float* const p = d + d_space.floats;
    InputReader reader(tiles_, x_, before_);
    PixelTable<const float> dy;
    TilePlace place = tiles_.place(task.first);
    for (int64_t first = task.first; first < task.last; first += split_.block_tiles()) {
      const int64_t count = std::min(split_.block_tiles(), task.last - first);
      for (int64_t i = 0; i < count; ++i, tiles_.advance(place)) {
        const auto& x = reader.tile(place, in * kBlock, ins(in));
        tiles_.kernels.transform_input(row_of(v_space_.at(v), i), x.data(), ins(in));
        tiles_.outputs(dy, dy_, place, out, &kZeros[0]);
        tiles_.kernels.transform_output_grad(row_of(d_space.at(d), i), dy.data(), outs);
      }
      multiply(p, v, d, d_space, task, first, count);
    }
    tiles_.kernels.transform_filters_grad(sums + out * 9 * x_.channels + in * kBlock, x_.channels,
                                          9 * x_.channels, p_space_.at(p), outs, ins(in));
  }

  void multiply(float* p, const float* v, const float* d, const MatrixSpace& d_space,
                const FilterGradSplit::Task& task, int64_t first, int64_t count) const {
    const int64_t outs = task.last_out - task.out;
    const bool add = first > task.first;
    WinogradProduct product{.c = p,
                            .a = d,
                            .b = v,
                            .c_row = p_space_.row_step,
                            .a_row = 1,
                            .a_col = d_space.row_step,
                            .b_row = v_space_.row_step,
                            .rows = outs,
                            .depth = count,
                            .cols = ins(task.in),
                            .add = add,
                            .fetch = v,
                            .fetch_floats = 0};
    // One block of sums stays in the cache, so the pixels of the next tiles are fetched.
    const bool is_one = std::max(x_.channels, dy_.channels) <= kBlock;
    const int64_t next = first + count, tiles = std::min(split_.block_tiles(), task.last - next);
    const int64_t all = tiles_.positions(), half = all / 2;
    FetchedMemory inputs, outputs;
    if (is_one) inputs = tiles_.rows_of(x_, next, tiles, tiles_.kernels.step);
    if (is_one) outputs = tiles_.rows_of(dy_, next, tiles, tiles_.kernels.outputs);
    int64_t index = 0;
    int64_t summed = -1;  // the last filter that has a sum
    tiles_.for_positions([&](int64_t position, int64_t filter) {
      product.c = p + filter * p_space_.position_step;
      product.a = d + position * d_space.position_step;
      product.b = v + position * v_space_.position_step;
      product.fetch = product.b + v_space_.position_step;
      product.fetch_floats = count * v_space_.row_step;
      if (is_one && index < half) {
        inputs.share(product, index, half);
      } else if (is_one) {
        outputs.share(product, index - half, all - half);
      }
      ++index;
      product.add = add || filter == summed;
      tiles_.kernels.product(product);
      summed = filter;
    });
  }

  /// dw = the sum of the parts, in their order, a filter at a time.
  void add_parts(const Tensor& dw, const float* parts) const {
    const int64_t C = x_.channels, size = 9 * C;
    const WinogradFilters f = filters_of(dw);
    float* const to = dw.data<float>();
    parallel_for(dy_.channels, std::max(int64_t{1}, kGrain / (size * parts_)),
                 [&](int64_t first, int64_t last) {
                   std::vector<float> sum(static_cast<size_t>(size));
                   for (int64_t k = first; k < last; ++k) {
                     std::copy_n(parts + k * size, size, sum.data());
                     for (int64_t part = 1; part < parts_; ++part) {
                       const float* const from = parts + part * part_floats() + k * size;
                       for (int64_t i = 0; i < size; ++i) sum[size_t(i)] += from[i];
                     }
                     for (int64_t tap = 0; tap < 9; ++tap) {
                       float* const filter = to + k * f.out_step + f.tap[tap];
                       const float* const from = sum.data() + tap * C;
                       for (int64_t c = 0; c < C; ++c) filter[c * f.in_step] = from[c];
                     }
                   }
                 });
  }

  const Tiles& tiles_;
  const Images<const float> x_;
  const PixelNorm before_;
  const Images<const float> dy_;
  const FilterGradSplit split_;
  const int64_t parts_;
  const MatrixSpace v_space_, p_space_;
};

}  // namespace

}  // namespace winograd

void winograd_backward_weight(const Conv2dGeometry& g, WinogradTile tile, const Tensor& dw,
                              const Tensor& dy, const Tensor& x, const PixelNorm& before) {
  const winograd::Tiles tiles = winograd::tiles_of(g, tile);
  winograd::WeightGradient(tiles, {x.data<float>(), g.H, g.W, g.C},
                           {dy.data<float>(), g.P, g.Q, g.K}, before)
      .run(dw);
}

}  // namespace lathe::cpu
