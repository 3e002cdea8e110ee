// Depthwise convolution by our own loops: tiles, taps, threads. Contracts: conv2d_depthwise_cpu.h.
#include "lathe/ops/conv/cpu/conv2d_depthwise_cpu.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/conv/cpu/depthwise_kernels_cpu.h"
#include "lathe/ops/conv/cpu/winograd_tiles.h"

namespace lathe::cpu {

namespace {

using depthwise::kLanes;
using winograd::Images;
using winograd::scratch;

constexpr int64_t kTilePixels = 512;  // of a tile: 32 KiB
constexpr int64_t kVectors = 4;       // of channels that a task computes one after another

int64_t vectors_of(int64_t channels) { return ceil_div(channels, kLanes); }
/// Channels of a vector: kLanes, or the rest.
int64_t lanes_of(int64_t vector, int64_t channels) {
  return std::min(kLanes, channels - vector * kLanes);
}

/// Outputs that read the same taps: every output of a forward pass; of an input's gradient those
/// whose row and column have the same remainder by the stride.
struct Phase {
  int64_t row, col;              // of its first output
  int64_t first_tap;             // of all that are packed
  std::vector<int64_t> offsets;  // of its taps in a tile
};

/// How outputs are computed from images. Outputs are counted in steps: step i holds the outputs
/// [i * out_step, (i + 1) * out_step) along a side and reads pixels from i * in_step + lead on.
struct Plan {
  Pair in_step = 1, out_step = 1;
  Pair lead = 0;
  Pair reach = 1;                  // pixels that a step reads
  int64_t step_rows, step_cols;    // steps along an image's sides
  std::vector<int64_t> taps = {};  // of the filter, in the order of the phases
  std::vector<Phase> phases = {};

  int64_t tile_rows(int64_t steps) const { return (steps - 1) * in_step.rows + reach.rows; }
  int64_t tile_cols() const { return (step_cols - 1) * in_step.cols + reach.cols; }
  /// Rows of steps that are computed from one tile.
  int64_t band() const {
    const int64_t rows = kTilePixels / tile_cols() - reach.rows;
    return std::min(std::max(rows, int64_t{0}) / in_step.rows + 1, step_rows);
  }
  int64_t bands() const { return ceil_div(step_rows, band()); }
  /// Where the pixel at this distance from a step's first one lies in a tile.
  int64_t offset(int64_t row, int64_t col) const { return (row * tile_cols() + col) * kLanes; }
  /// The tile's pixels that belong to the steps.
  depthwise::Pixels<const float> of_steps(const float* tile) const {
    return {tile, offset(in_step.rows, 0), offset(0, in_step.cols)};
  }
};

Pair reach_of(const Conv2dGeometry& g) {
  return {(g.R - 1) * g.dilation.rows + 1, (g.S - 1) * g.dilation.cols + 1};
}

/// y from x, or the products that the filters' gradient sums up.
Plan forward_plan(const Conv2dGeometry& g) {
  Plan plan{.in_step = g.stride,
            .lead = {-g.pad.rows, -g.pad.cols},
            .reach = reach_of(g),
            .step_rows = g.P,
            .step_cols = g.Q};
  Phase& all = plan.phases.emplace_back();
  for (int64_t tap = 0; tap < g.R * g.S; ++tap) {
    plan.taps.push_back(tap);
    all.offsets.push_back(plan.offset(tap / g.S * g.dilation.rows, tap % g.S * g.dilation.cols));
  }
  return plan;
}

/// dx from dy: dx[i] sums dy[p] * w[r] over all p * stride = i + pad - r * dilation.
Plan backward_plan(const Conv2dGeometry& g) {
  const Pair reach = reach_of(g);
  const auto lead = [](int64_t pad, int64_t reached, int64_t stride) {
    return (pad - (reached - 1)) / stride;
  };
  Plan plan{.out_step = g.stride,
            .lead = {lead(g.pad.rows, reach.rows, g.stride.rows),
                     lead(g.pad.cols, reach.cols, g.stride.cols)},
            .step_rows = ceil_div(g.H, g.stride.rows),
            .step_cols = ceil_div(g.W, g.stride.cols)};
  plan.reach = {(g.stride.rows - 1 + g.pad.rows) / g.stride.rows - plan.lead.rows + 1,
                (g.stride.cols - 1 + g.pad.cols) / g.stride.cols - plan.lead.cols + 1};
  for (int64_t row = 0; row < g.stride.rows; ++row) {
    for (int64_t col = 0; col < g.stride.cols; ++col) {
      Phase phase{row, col, static_cast<int64_t>(plan.taps.size()), {}};
      for (int64_t tap = 0; tap < g.R * g.S; ++tap) {
        const int64_t i = row + g.pad.rows - tap / g.S * g.dilation.rows;
        const int64_t j = col + g.pad.cols - tap % g.S * g.dilation.cols;
        if (i % g.stride.rows != 0 || j % g.stride.cols != 0) continue;
        plan.taps.push_back(tap);
        phase.offsets.push_back(
            plan.offset(i / g.stride.rows - plan.lead.rows, j / g.stride.cols - plan.lead.cols));
      }
      plan.phases.push_back(std::move(phase));
    }
  }
  return plan;
}

/// Fills a tile of `rows` rows with the channels of a vector, and with 0 outside of the image.
void fill_tile(float* tile, const Plan& plan, const Images<const float>& from, int64_t image,
               int64_t first_step, int64_t rows, int64_t vector) {
  const int64_t cols = plan.tile_cols();
  const int64_t left = std::clamp(-plan.lead.cols, int64_t{0}, cols);
  const int64_t right = std::clamp(from.cols - plan.lead.cols, left, cols);
  for (int64_t i = 0; i < rows; ++i, tile += cols * kLanes) {
    const int64_t row = first_step * plan.in_step.rows + plan.lead.rows + i;
    if (row < 0 || row >= from.rows || left == right) {
      std::fill_n(tile, cols * kLanes, 0.f);
      continue;
    }
    std::fill_n(tile, left * kLanes, 0.f);
    depthwise::copy_pixels(tile + left * kLanes, kLanes,
                           from.pixel(image, row, plan.lead.cols + left, vector * kLanes),
                           from.channels, right - left, lanes_of(vector, from.channels));
    std::fill_n(tile + right * kLanes, (cols - right) * kLanes, 0.f);
  }
}

/// w's numbers [vector, tap, lane] in the order of the plan's taps, behind those of the bias.
class PackedFilters {
 public:
  PackedFilters(const Plan& plan, int64_t channels, const Tensor& w, const Tensor& bias)
      : taps_(static_cast<int64_t>(plan.taps.size())),
        memory_(scratch(round_up(channels, kLanes) * (taps_ + 1))) {
    const float* const from = w.data<float>();
    const float* const add = bias.defined() ? bias.data<float>() : nullptr;
    float* to = memory_.data<float>();
    for (int64_t first = 0; first < channels; first += kLanes) {
      const int64_t lanes = std::min(kLanes, channels - first);
      for (int64_t tap = -1; tap < taps_; ++tap, to += kLanes) {
        std::fill_n(to, kLanes, 0.f);
        for (int64_t c = first; c < first + lanes; ++c) {
          if (tap >= 0) to[c - first] = from[c * taps_ + plan.taps[static_cast<size_t>(tap)]];
          if (tap < 0 && add != nullptr) to[c - first] = add[c];
        }
      }
    }
  }

  const float* bias(int64_t vector) const {
    return memory_.data<float>() + vector * (taps_ + 1) * kLanes;
  }
  const float* tap(int64_t vector, int64_t tap) const { return bias(vector) + (tap + 1) * kLanes; }

 private:
  int64_t taps_;
  Tensor memory_;
};

/// Steps of one image, and vectors of channels.
struct Piece {
  int64_t image, first_step, steps, vector, last_vector;
};

/// All pieces of a batch, those of a band of steps one after another.
class Pieces {
 public:
  Pieces(const Plan& plan, int64_t images, int64_t vectors)
      : plan_(plan), images_(images), vectors_(vectors) {}

  int64_t bands() const { return images_ * bands_; }  // of all images
  int64_t groups() const { return ceil_div(vectors_, kVectors); }
  int64_t count() const { return bands() * groups(); }
  Piece operator[](int64_t i) const {
    const int64_t band = i / groups() % bands_, first = i % groups() * kVectors;
    const int64_t step = band * plan_.band();
    return {i / groups() / bands_, step, std::min(plan_.band(), plan_.step_rows - step), first,
            std::min(first + kVectors, vectors_)};
  }
  /// Pieces that are worth another thread.
  int64_t grain() const {
    constexpr int64_t kGrain = 16384;  // products of vectors
    const int64_t products =
        kVectors * plan_.band() * plan_.step_cols * static_cast<int64_t>(plan_.taps.size());
    return std::max(int64_t{1}, kGrain / products);
  }

 private:
  const Plan& plan_;
  int64_t images_, vectors_;
  int64_t bands_ = plan_.bands();
};

/// The outputs of one piece and vector from their tile. `space` has room for those of a phase.
void write_outputs(const Plan& plan, const Images<float>& to, const PackedFilters& filters,
                   const Piece& piece, int64_t vector, const float* tile, float* space) {
  for (const Phase& phase : plan.phases) {
    const int64_t last =
        std::min(piece.first_step + piece.steps, ceil_div(to.rows - phase.row, plan.out_step.rows));
    const int64_t rows = last - piece.first_step;
    const int64_t cols = ceil_div(to.cols - phase.col, plan.out_step.cols);
    if (rows <= 0 || cols <= 0) continue;
    float* const first = to.pixel(piece.image, piece.first_step * plan.out_step.rows + phase.row,
                                  phase.col, vector * kLanes);
    const int64_t row = plan.out_step.rows * to.cols * to.channels;
    const int64_t col = plan.out_step.cols * to.channels, lanes = lanes_of(vector, to.channels);
    const depthwise::Pixels<float> y = lanes == kLanes
                                           ? depthwise::Pixels<float>{first, row, col}
                                           : depthwise::Pixels<float>{space, cols * kLanes, kLanes};
    depthwise::sum_taps(y, rows, cols, plan.of_steps(tile),
                        {phase.offsets.data(), static_cast<int64_t>(phase.offsets.size())},
                        filters.tap(vector, phase.first_tap), filters.bias(vector));
    for (int64_t i = 0; lanes < kLanes && i < rows; ++i) {
      depthwise::copy_pixels(first + i * row, col, space + i * cols * kLanes, kLanes, cols, lanes);
    }
  }
}

void write_outputs(const Plan& plan, int64_t images, const Images<float>& to,
                   const Images<const float>& from, const Tensor& w, const Tensor& bias) {
  const PackedFilters filters(plan, from.channels, w, bias);
  const Pieces pieces(plan, images, vectors_of(from.channels));
  const int64_t tile_floats = plan.offset(plan.tile_rows(plan.band()), 0);
  parallel_for(pieces.count(), pieces.grain(), [&](int64_t begin, int64_t end) {
    const Tensor memory = scratch(tile_floats + plan.band() * plan.step_cols * kLanes);
    float* const tile = memory.data<float>();
    for (int64_t i = begin; i < end; ++i) {
      const Piece piece = pieces[i];
      for (int64_t vector = piece.vector; vector < piece.last_vector; ++vector) {
        fill_tile(tile, plan, from, piece.image, piece.first_step, plan.tile_rows(piece.steps),
                  vector);
        write_outputs(plan, to, filters, piece, vector, tile, tile + tile_floats);
      }
    }
  });
}

/// The filters' gradient: sums over pixels, in parts that depend on the sizes alone.
class FilterSums {
 public:
  FilterSums(const Conv2dGeometry& g, const Tensor& dy, const Tensor& x)
      : g_(g),
        plan_(forward_plan(g)),
        x_{x.data<float>(), g.H, g.W, g.C},
        dy_{dy.data<float>(), g.P, g.Q, g.K},
        offsets_(plan_.phases[0].offsets) {
    // And taps whose sums nobody reads.
    offsets_.resize(static_cast<size_t>(round_up(taps(), depthwise::kTapStep)));
  }

  void run(const Tensor& dw) const {
    const int64_t groups = pieces_.groups(), bands = pieces_.bands();
    const int64_t tile_floats = plan_.offset(plan_.tile_rows(plan_.band()), 0);
    parallel_for(parts_ * groups, 1, [&](int64_t begin, int64_t end) {
      const Tensor memory = scratch(tile_floats + plan_.band() * g_.Q * kLanes);
      float* const tile = memory.data<float>();
      for (int64_t i = begin; i < end; ++i) {
        const int64_t part = i / groups, first = part * bands / parts_;
        for (int64_t band = first; band < (part + 1) * bands / parts_; ++band) {
          const Piece piece = pieces_[band * groups + i % groups];
          for (int64_t vector = piece.vector; vector < piece.last_vector; ++vector) {
            float* const sums = sums_of(part, vector);
            if (band == first) std::fill_n(sums, std::ssize(offsets_) * kLanes, 0.f);
            add(sums, piece, vector, tile, tile + tile_floats);
          }
        }
      }
    });
    join(dw.data<float>());
  }

 private:
  static constexpr int64_t kPieces = 16;  // of work that are enough for a few threads

  int64_t taps() const { return g_.R * g_.S; }
  /// [tap, lane]
  float* sums_of(int64_t part, int64_t vector) const {
    return memory_.data<float>() + (part * vectors_ + vector) * std::ssize(offsets_) * kLanes;
  }

  /// Adds the products of one piece and vector. `space` has room for its pixels of dy.
  void add(float* sums, const Piece& piece, int64_t vector, float* tile, float* space) const {
    fill_tile(tile, plan_, x_, piece.image, piece.first_step, plan_.tile_rows(piece.steps), vector);
    depthwise::Pixels<const float> dy{dy_.pixel(piece.image, piece.first_step, 0, vector * kLanes),
                                      g_.Q * g_.K, g_.K};
    const int64_t lanes = lanes_of(vector, g_.K);
    if (lanes < kLanes) {
      depthwise::copy_pixels(space, kLanes, dy.data, g_.K, piece.steps * g_.Q, lanes);
      dy = {space, g_.Q * kLanes, kLanes};
    }
    depthwise::add_products(sums, dy, piece.steps, g_.Q, plan_.of_steps(tile),
                            {offsets_.data(), std::ssize(offsets_)});
  }

  /// dw [K,tap] from the parts, in their order.
  void join(float* dw) const {
    constexpr int64_t kGrain = 256;  // channels
    parallel_for(g_.C, kGrain, [&](int64_t begin, int64_t end) {
      for (int64_t c = begin; c < end; ++c) {
        for (int64_t tap = 0; tap < taps(); ++tap) {
          const int64_t at = tap * kLanes + c % kLanes;
          float sum = sums_of(0, c / kLanes)[at];
          for (int64_t part = 1; part < parts_; ++part) sum += sums_of(part, c / kLanes)[at];
          dw[c * taps() + tap] = sum;
        }
      }
    });
  }

  const Conv2dGeometry& g_;
  const Plan plan_;
  const Images<const float> x_, dy_;
  std::vector<int64_t> offsets_;  // of the taps
  const int64_t vectors_ = vectors_of(g_.C);
  const Pieces pieces_{plan_, g_.N, vectors_};
  const int64_t parts_ = std::min(ceil_div(kPieces, pieces_.groups()), pieces_.bands());
  const Tensor memory_ =
      scratch(parts_ * vectors_ * round_up(taps(), depthwise::kTapStep) * kLanes);
};

}  // namespace

bool depthwise_takes(const Conv2dGeometry& g) {
  // A tile holds what one row of outputs reads, and a gradient has a phase for each of a stride's
  // pixels.
  constexpr int64_t kMostReach = 32, kMostStride = 8;
  const Pair reach = reach_of(g);
  return g.groups == g.C && g.K == g.C && std::max(reach.rows, reach.cols) <= kMostReach &&
         std::max(g.stride.rows, g.stride.cols) <= kMostStride;
}

void depthwise_forward(const Conv2dGeometry& g, const Tensor& y, const Tensor& x, const Tensor& w,
                       const Tensor& bias) {
  write_outputs(forward_plan(g), g.N, {y.data<float>(), g.P, g.Q, g.K},
                {x.data<float>(), g.H, g.W, g.C}, w, bias);
}

void depthwise_backward_input(const Conv2dGeometry& g, const Tensor& dx, const Tensor& dy,
                              const Tensor& w) {
  write_outputs(backward_plan(g), g.N, {dx.data<float>(), g.H, g.W, g.C},
                {dy.data<float>(), g.P, g.Q, g.K}, w, {});
}

void depthwise_backward_weight(const Conv2dGeometry& g, const Tensor& dw, const Tensor& dy,
                               const Tensor& x) {
  FilterSums(g, dy, x).run(dw);
}

}  // namespace lathe::cpu
