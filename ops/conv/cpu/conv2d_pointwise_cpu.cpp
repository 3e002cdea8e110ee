// 1x1 convolutions by our own matrix products: panels, blocks, threads. Contracts:
// conv2d_pointwise_cpu.h.
#include "lathe/ops/conv/cpu/conv2d_pointwise_cpu.h"

#include <algorithm>
#include <array>
#include <optional>

#include "lathe/core/thread_pool.h"
#include "lathe/ops/conv/cpu/channel_moments_cpu.h"
#include "lathe/ops/conv/cpu/pointwise_split.h"
#include "lathe/ops/conv/cpu/winograd_kernels.h"
#include "lathe/ops/conv/cpu/winograd_tiles.h"

namespace lathe::cpu {

namespace {

using winograd::scratch;

using pointwise::kPanel;
using pointwise::kRows;

// What is multiplied at a time: kDepth x kPanel numbers of the right matrix stay in the first-level
// cache, kRows of the left one and of the result in the second-level cache.
constexpr int64_t kDepth = 128;
constexpr int64_t kVector = 16;  // columns of a whole vector of every instruction set

void multiply(const WinogradProduct& p) { winograd::kernel_set().f4.product(p); }

/// Which pixel of x each pixel of y reads.
struct Pixels {
  explicit Pixels(const Conv2dGeometry& geometry) : g(geometry) {}

  int64_t count() const { return g.N * g.P * g.Q; }
  bool are_neighbours() const { return g.stride == Pair(1); }
  int64_t of_x(int64_t pixel) const {
    if (are_neighbours()) return pixel;
    const int64_t row = pixel / g.Q;  // of all images
    return ((row / g.P * g.H + row % g.P * g.stride.rows) * g.W) + pixel % g.Q * g.stride.cols;
  }

  const Conv2dGeometry& g;
};

/// A matrix [depth, cols] in panels of kPanel columns, each with its rows one after another. The
/// last panel's columns are followed by zeros up to a whole vector.
struct Panels {
  int64_t depth, cols;
  Tensor memory = scratch(depth * round_up(cols, kPanel));

  int64_t count() const { return ceil_div(cols, kPanel); }
  int64_t width(int64_t panel) const { return std::min(kPanel, cols - panel * kPanel); }
  float* at(int64_t panel, int64_t row) const {
    return memory.data<float>() + (panel * depth + row) * kPanel;
  }
  /// Writes a row of a panel.
  void put(int64_t panel, int64_t row, const float* values) const {
    const int64_t columns = width(panel);
    float* const to = at(panel, row);
    std::copy_n(values, columns, to);
    std::fill_n(to + columns, round_up(columns, kVector) - columns, 0.f);
  }
};

/// w [K,C] as the right matrix of dx = dy w.
Panels panels_of(const float* w, int64_t depth, int64_t cols) {
  const Panels panels{depth, cols};
  parallel_for(panels.count() * ceil_div(depth, kDepth), 4, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t panel = i % panels.count(), begin = i / panels.count() * kDepth;
      for (int64_t row = begin; row < std::min(begin + kDepth, depth); ++row) {
        panels.put(panel, row, w + row * cols + panel * kPanel);
      }
    }
  });
  return panels;
}

/// w [K,C] as the right matrix of y = x w'. A square at a time, one beside the other along w's
/// rows, which the processor then fetches ahead.
Panels transposed_panels_of(const float* w, int64_t depth, int64_t cols) {
  constexpr int64_t kSide = kVector;
  const Panels panels{depth, cols};
  const int64_t down = ceil_div(depth, kSide);
  parallel_for(down * ceil_div(cols, kSide), 64, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      const int64_t row = i % down * kSide, col = i / down * kSide;
      const int64_t rows = std::min(kSide, depth - row), columns = std::min(kSide, cols - col);
      const float* const from = w + col * depth + row;
      float* const to = panels.at(col / kPanel, row) + col % kPanel;
      if (rows == kSide && columns == kSide) {
        for (int64_t r = 0; r < kSide; ++r) {
          for (int64_t c = 0; c < kSide; ++c) to[r * kPanel + c] = from[c * depth + r];
        }
        continue;
      }
      for (int64_t r = 0; r < rows; ++r) {
        std::fill_n(to + r * kPanel + columns, kSide - columns, 0.f);
        for (int64_t c = 0; c < columns; ++c) to[r * kPanel + c] = from[c * depth + r];
      }
    }
  });
  return panels;
}

/// c[rows, panels first … last-1] = a[rows, depth] b, or +=. c's first column is that of panel
/// `first`; c has memory for whole vectors of columns. What is likely to be read next is brought
/// into the cache: with a small right matrix, which stays there, the rows behind those of a; of a
/// large one its next numbers.
void multiply_vectors(float* c, int64_t c_row, const float* a, const Panels& b, int64_t rows,
                      int64_t first, int64_t last, bool add) {
  constexpr int64_t kLarge = 1 << 18;  // numbers: half of a second-level cache of 2 MiB
  const bool is_large = b.depth * b.cols >= kLarge;
  const int64_t share = ceil_div(rows * b.depth, ceil_div(b.depth, kDepth) * (last - first));
  const float* rows_behind = a + rows * b.depth;
  for (int64_t begin = 0; begin < b.depth; begin += kDepth) {
    const int64_t depth = std::min(kDepth, b.depth - begin);
    for (int64_t panel = first; panel < last; ++panel, rows_behind += share) {
      const bool is_last = panel + 1 == last;
      const int64_t next = begin + depth < b.depth ? begin + depth : 0;
      const float* const panel_behind = is_last ? b.at(first, next) : b.at(panel + 1, begin);
      multiply({.c = c + (panel - first) * kPanel,
                .a = a + begin,
                .b = b.at(panel, begin),
                .c_row = c_row,
                .a_row = b.depth,
                .a_col = 1,
                .b_row = kPanel,
                .rows = rows,
                .depth = depth,
                .cols = b.width(panel),
                .add = add || begin > 0,
                .fetch = is_large ? panel_behind : rows_behind,
                .fetch_floats = is_large ? depth * kPanel : share,
                .rows_only = true});
    }
  }
}

/// multiply_vectors for a c whose rows end with the matrix: columns that fill no whole vector are
/// computed in memory of their own.
void multiply_rows(float* c, int64_t c_row, const float* a, const Panels& b, int64_t rows,
                   int64_t first, int64_t last, bool add) {
  const int64_t end = b.width(last - 1);
  if (end % kVector == 0) return multiply_vectors(c, c_row, a, b, rows, first, last, add);
  if (first + 1 < last) multiply_vectors(c, c_row, a, b, rows, first, last - 1, add);
  float* const to = c + (last - 1 - first) * kPanel;
  alignas(64) std::array<float, static_cast<size_t>(kRows * kPanel)> panel;
  for (int64_t i = 0; add && i < rows; ++i) {
    std::copy_n(to + i * c_row, end, panel.data() + i * kPanel);
  }
  multiply_vectors(panel.data(), kPanel, a, b, rows, last - 1, last, add);
  for (int64_t i = 0; i < rows; ++i) std::copy_n(panel.data() + i * kPanel, end, to + i * c_row);
}

/// Calls f(task) for each task that is not empty, in parallel.
template <class F>
void for_tasks(const pointwise::ProductSplit& split, F f) {
  parallel_for(split.tasks(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const pointwise::ProductSplit::Task task = split[i];
      if (task.rows > 0 && task.panel < task.last_panel) f(task);
    }
  });
}

/// The moments of y[rows, panels first … last-1].
void keep_moments(ChannelMoments& moments, int64_t block, const float* y, int64_t y_row,
                  int64_t rows, int64_t first, int64_t last) {
  std::array<const float*, kRows> pixels;
  for (int64_t panel = first; panel < last; ++panel) {
    const int64_t channel = panel * kPanel, channels = std::min(kPanel, y_row - channel);
    for (int64_t i = 0; i < rows; ++i) pixels[size_t(i)] = y + i * y_row + channel;
    BlockMoments sums;
    sums.add(pixels.data(), rows, channels);
    moments.keep(block, channel, channels, sums);
  }
}

/// The gradient of the filters.
class WeightGradient {
 public:
  WeightGradient(const Conv2dGeometry& g, const Tensor& dy, const Tensor& x)
      : g_(g), pixels_(g), dy_(dy.data<float>()), x_(x.data<float>()) {}

  void run(const Tensor& dw) {
    const int64_t size = g_.K * g_.C;
    float* const result = dw.data<float>();
    const Tensor memory = parts_ > 1 ? scratch(parts_ * size) : Tensor();
    float* const parts = parts_ > 1 ? memory.data<float>() : result;
    parallel_for(split_.tasks(), 1, [&](int64_t first, int64_t last) {
      for (int64_t i = first; i < last; ++i) {
        const pointwise::FilterGradSplit::Task task = split_[i];
        run_task(task, parts + task.part * size);
      }
    });
    if (parts_ == 1) return;
    constexpr int64_t kGrain = 4096;
    parallel_for(size, kGrain, [&](int64_t first, int64_t last) {
      std::copy(parts + first, parts + last, result + first);
      for (int64_t part = 1; part < parts_; ++part) {
        const float* const from = parts + part * size;
        for (int64_t i = first; i < last; ++i) result[i] += from[i];
      }
    });
  }

 private:
  static constexpr int64_t kMostPixels = 100;  // that are multiplied at a time
  static constexpr int64_t kGap =
      16;  // between rows, so that they fall into different sets of the cache

  void run_task(const pointwise::FilterGradSplit::Task& task, float* dw) const {
    const int64_t k0 = task.out, c0 = task.in;
    const int64_t outs = task.last_out - k0, ins = task.last_in - c0, end = task.last_pixel;
    if (outs <= 0) return;
    // Equal steps: each reads and writes all sums, however few pixels it has.
    const int64_t pixels = std::max(end - task.pixel, int64_t{1});
    const int64_t step = ceil_div(pixels, ceil_div(pixels, kMostPixels));
    const int64_t d_row = outs + kGap, panel_sums = round_up(outs, kWinogradRows) * kPanel;
    const Panels right{step, ins};
    const Tensor memory = scratch(step * d_row + right.count() * panel_sums);
    float* const d = memory.data<float>();
    float* const sums = d + step * d_row;
    bool add = false;
    for (int64_t first = task.pixel; first < end; first += step) {
      const int64_t count = std::min(step, end - first);
      for (int64_t i = 0; i < count; ++i) {
        std::copy_n(dy_ + (first + i) * g_.K + k0, outs, d + i * d_row);
        std::fill_n(d + i * d_row + outs, kGap, 0.f);
        const float* const from = x_ + pixels_.of_x(first + i) * g_.C + c0;
        for (int64_t panel = 0; panel < right.count(); ++panel) {
          right.put(panel, i, from + panel * kPanel);
        }
      }
      // The operands of the next step follow in memory, where they are whole rows.
      const int64_t calls = right.count(), of_x = calls > 1 ? ceil_div(calls * ins, ins + outs) : 0;
      const float* const next_x = x_ + pixels_.of_x(first) * g_.C + c0 + step * g_.C;
      const float* const next_dy = dy_ + (first + step) * g_.K + k0;
      for (int64_t panel = 0; panel < calls; ++panel) {
        const bool is_x = panel < of_x;
        const int64_t share =
            is_x ? ceil_div(step * ins, of_x) : ceil_div(step * outs, calls - of_x);
        multiply({.c = sums + panel * panel_sums,
                  .a = d,
                  .b = right.at(panel, 0),
                  .c_row = kPanel,
                  .a_row = 1,
                  .a_col = d_row,
                  .b_row = kPanel,
                  .rows = outs,
                  .depth = count,
                  .cols = right.width(panel),
                  .add = add,
                  .fetch = is_x ? next_x + panel * share : next_dy + (panel - of_x) * share,
                  .fetch_floats = share});
      }
      add = true;
    }
    for (int64_t k = 0; k < outs; ++k) {
      for (int64_t panel = 0; panel < right.count(); ++panel) {
        const float* const from = sums + panel * panel_sums + k * kPanel;
        if (add) {
          std::copy_n(from, right.width(panel), dw + (k0 + k) * g_.C + c0 + panel * kPanel);
        } else {
          std::fill_n(dw + (k0 + k) * g_.C + c0 + panel * kPanel, right.width(panel), 0.f);
        }
      }
    }
  }

  const Conv2dGeometry& g_;
  const Pixels pixels_;
  const float *dy_, *x_;
  const pointwise::FilterGradSplit split_{pixels_.count(), g_.C, g_.K, num_threads()};
  const int64_t parts_ = split_.parts();
};

/// The pixels of dx that belong to one of dy: its values, then zeros where the stride skips.
void write_cell(const Conv2dGeometry& g, float* dx, int64_t pixel, int64_t channel,
                const float* values, int64_t channels) {
  const int64_t image = pixel / (g.P * g.Q);
  const int64_t row = pixel / g.Q % g.P * g.stride.rows, col = pixel % g.Q * g.stride.cols;
  for (int64_t i = row; i < std::min(row + g.stride.rows, g.H); ++i) {
    for (int64_t j = col; j < std::min(col + g.stride.cols, g.W); ++j) {
      float* const to = dx + ((image * g.H + i) * g.W + j) * g.C + channel;
      if (i == row && j == col) {
        std::copy_n(values, channels, to);
      } else {
        std::fill_n(to, channels, 0.f);
      }
    }
  }
}

}  // namespace

bool pointwise_takes(const Conv2dGeometry& g) {
  return g.R == 1 && g.S == 1 && g.pad == Pair(0) && g.groups == 1;
}

void pointwise_forward(const Conv2dGeometry& g, const Tensor& y, const Tensor& x, const Tensor& w,
                       const Tensor& bias, Tensor* moments) {
  const Pixels pixels(g);
  const Panels filters = transposed_panels_of(w.data<float>(), g.C, g.K);
  const float* const add = bias.defined() ? bias.data<float>() : nullptr;
  const pointwise::ProductSplit split(pixels.count(), filters.count(), num_threads());
  std::optional<ChannelMoments> sums;
  if (moments != nullptr) sums.emplace(split.blocks(), g.K);
  for_tasks(split, [&](const pointwise::ProductSplit::Task& task) {
    const int64_t first = task.row, rows = task.rows;
    const int64_t panel = task.panel, last = task.last_panel;
    const float* from = x.data<float>() + first * g.C;
    Tensor packed;
    if (!pixels.are_neighbours()) {
      packed = scratch(rows * g.C);
      float* const to = packed.data<float>();
      for (int64_t i = 0; i < rows; ++i) {
        std::copy_n(x.data<float>() + pixels.of_x(first + i) * g.C, g.C, to + i * g.C);
      }
      from = to;
    }
    float* const block = y.data<float>() + first * g.K;
    float* const to = block + panel * kPanel;
    const int64_t cols = std::min(last * kPanel, g.K) - panel * kPanel;
    for (int64_t i = 0; add != nullptr && i < rows; ++i) {
      std::copy_n(add + panel * kPanel, cols, to + i * g.K);
    }
    multiply_rows(to, g.K, from, filters, rows, panel, last, add != nullptr);
    if (sums) keep_moments(*sums, task.block, block, g.K, rows, panel, last);
  });
  if (moments != nullptr) *moments = sums->joined();
}

void pointwise_backward_input(const Conv2dGeometry& g, const Tensor& dx, const Tensor& dy,
                              const Tensor& w) {
  const Pixels pixels(g);
  const Panels filters = panels_of(w.data<float>(), g.K, g.C);
  float* const to = dx.data<float>();
  const pointwise::ProductSplit split(pixels.count(), filters.count(), num_threads());
  for_tasks(split, [&](const pointwise::ProductSplit::Task& task) {
    const int64_t first = task.row, rows = task.rows;
    const int64_t panel = task.panel, last = task.last_panel;
    const float* const from = dy.data<float>() + first * g.K;
    const int64_t col = panel * kPanel, cols = std::min(last * kPanel, g.C) - col;
    if (pixels.are_neighbours()) {
      multiply_rows(to + first * g.C + col, g.C, from, filters, rows, panel, last, false);
      return;
    }
    const Tensor memory = scratch(rows * cols);
    float* const values = memory.data<float>();
    multiply_rows(values, cols, from, filters, rows, panel, last, false);
    for (int64_t i = 0; i < rows; ++i) {
      write_cell(g, to, first + i, col, values + i * cols, cols);
    }
  });
}

void pointwise_backward_weight(const Conv2dGeometry& g, const Tensor& dw, const Tensor& dy,
                               const Tensor& x) {
  WeightGradient(g, dy, x).run(dw);
}

}  // namespace lathe::cpu
