// How the passes of 1x1 convolutions are divided into tasks for threads, as a function of sizes.
// What a sum goes over depends on the sizes alone; the number of threads decides only which columns
// of the results are computed together. Used by conv2d_pointwise_cpu.cpp and, to see how evenly
// many threads would be busy, tests/ops/conv2d_threads_test.cpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lathe/core/ceil_div.h"
#include "lathe/core/deal_work.h"

namespace lathe::cpu::pointwise {

inline constexpr int64_t kPanel = 64;   // columns that are multiplied at a time
inline constexpr int64_t kRows = 96;    // rows likewise
inline constexpr int64_t kPieces = 16;  // pieces of work that are enough for a few threads

/// A product of matrices with many rows: y from x, or dx from dy.
class ProductSplit {
 public:
  /// `rows` pixels, `panels` panels of channels of the result.
  ProductSplit(int64_t rows, int64_t panels, int64_t threads)
      : rows_(rows),
        panels_(panels),
        work_(deal_work(blocks_ * groups_, threads, group_, kAgain)) {}

  int64_t blocks() const { return blocks_; }  // of rows; the last may be empty

  struct Task {
    int64_t block, row, rows;   // the first of the rows
    int64_t panel, last_panel;  // panels [panel, last_panel)
  };
  int64_t tasks() const { return work_.tasks(); }
  /// May be empty.
  Task operator[](int64_t i) const {
    const DealtWork::Task task = work_[i];
    const int64_t block = task.piece / groups_, row = block * size_;
    const int64_t panel = task.piece % groups_ * group_;
    const int64_t panels = std::min(group_, panels_ - panel);
    return {block, row, std::max(int64_t{0}, std::min(size_, rows_ - row)),
            panel + task.begin(panels), panel + task.end(panels)};
  }

 private:
  static constexpr double kAgain = 0.02;  // of the work: a part's rows come from memory once more

  int64_t rows_, panels_;
  int64_t blocks_ = ceil_div(rows_, kRows);
  int64_t size_ = round_up(ceil_div(rows_, blocks_), int64_t{6});
  int64_t group_ = ceil_div(panels_, std::min(panels_, ceil_div(kPieces, blocks_)));
  int64_t groups_ = ceil_div(panels_, group_);
  DealtWork work_;
};

/// The gradient of the filters: sums over pixels.
class FilterGradSplit {
 public:
  FilterGradSplit(int64_t pixels, int64_t in_channels, int64_t out_channels, int64_t threads)
      : pixels_(pixels),
        ins_(in_channels),
        outs_(out_channels),
        work_(deal_work(parts_ * blocks_, threads, ceil_div(std::min(outs_, kBlock), kUnit),
                        kAgain)) {}

  int64_t parts() const { return parts_; }  // of the pixels: sums of their own

  struct Task {
    int64_t part, pixel, last_pixel;  // pixels [pixel, last_pixel)
    int64_t in, last_in;              // channels of x
    int64_t out, last_out;            // channels of dy
  };
  int64_t tasks() const { return work_.tasks(); }
  /// May be empty.
  Task operator[](int64_t i) const {
    const DealtWork::Task task = work_[i];
    const int64_t part = task.piece / blocks_, size = ceil_div(pixels_, parts_);
    const int64_t in = task.piece % in_blocks_ * kBlock;
    const int64_t out = task.piece % blocks_ / in_blocks_ * kBlock;
    const int64_t units = ceil_div(std::min(kBlock, outs_ - out), kUnit);
    return {part,
            part * size,
            std::min((part + 1) * size, pixels_),
            in,
            std::min(in + kBlock, ins_),
            out + task.begin(units) * kUnit,
            std::min(out + task.end(units) * kUnit, outs_)};
  }

 private:
  static constexpr int64_t kBlock = 256;  // channels on both sides of what a task sums
  static constexpr int64_t kUnit = 16;    // of them that stay together: whole vectors
  static constexpr double kAgain = 0.02;  // of the work: a part copies the pixels of x once more
  // Pixels that are worth a part of their own: more where its sums do not stay in the cache, and
  // enough pieces of work are left.
  static constexpr int64_t kPartPixels = 384, kLargePartPixels = 768, kLargeBlocks = 4;

  int64_t pixels_, ins_, outs_;
  int64_t in_blocks_ = ceil_div(ins_, kBlock);
  int64_t blocks_ = in_blocks_ * ceil_div(outs_, kBlock);
  int64_t part_pixels_ =
      blocks_ >= kLargeBlocks && blocks_ * ceil_div(pixels_, kLargePartPixels) >= kPieces / 2
          ? kLargePartPixels
          : kPartPixels;
  int64_t parts_ = std::min(ceil_div(kPieces, blocks_), ceil_div(pixels_, part_pixels_));
  DealtWork work_;
};

}  // namespace lathe::cpu::pointwise
