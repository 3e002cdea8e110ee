// How Winograd's passes are divided into tasks for threads, as a function of sizes. What a sum goes
// over depends on the sizes alone; the number of threads decides only which channels of the results
// are computed together. Used by conv2d_winograd_cpu.cpp, conv2d_winograd_grad_cpu.cpp and, to see
// how evenly many threads would be busy, tests/ops/conv2d_threads_test.cpp.
#pragma once

#include <algorithm>
#include <cstdint>

#include "lathe/core/ceil_div.h"
#include "lathe/core/deal_work.h"
#include "lathe/ops/conv/cpu/winograd_kernels.h"

namespace lathe::cpu::winograd {

inline constexpr int64_t kBlock = 64;  // channels that are multiplied at a time
inline constexpr int64_t kUnit = 16;   // channels that stay together: a vector of the widest

/// A tile's transform takes as long as the products of that many channels (measured: with 64
/// channels both transforms add 17 % to the products).
inline constexpr int64_t kTransform = 6;

/// The outputs, or the input's gradient.
class OutputSplit {
 public:
  /// `positions` of each of `tiles` tiles.
  OutputSplit(int64_t tiles, int64_t positions, int64_t in_channels, int64_t out_channels,
              int64_t threads)
      : tiles_(tiles), channels_(out_channels), blocks_(blocks_of(positions, in_channels)) {
    work_ = deal_work(blocks_ * groups(), threads, ceil_div(group(), kUnit),
                      double(kTransform) / static_cast<double>(group()));
  }

  /// Blocks of tiles, and tiles in each but the last.
  int64_t blocks() const { return blocks_; }
  int64_t block_tiles() const { return ceil_div(tiles_, blocks_); }

  /// With so few blocks each transforms the filters that it needs, when it needs them. Otherwise
  /// all are transformed before.
  bool transforms_filters() const { return blocks_ <= kFewBlocks; }

  struct Task {
    int64_t block, first, tiles;  // the first of the tiles
    int64_t out, last_out;        // channels [out, last_out)
  };
  int64_t tasks() const { return work_.tasks(); }
  /// May be empty.
  Task operator[](int64_t i) const {
    const DealtWork::Task task = work_[i];
    const int64_t block = task.piece / groups(), first = block * block_tiles();
    const int64_t out = task.piece % groups() * group();
    const int64_t units = ceil_div(std::min(group(), channels_ - out), kUnit);
    return {block, first, std::max(int64_t{0}, std::min(block_tiles(), tiles_ - first)),
            out + task.begin(units) * kUnit, std::min(out + task.end(units) * kUnit, channels_)};
  }

 private:
  // What is multiplied at a time, measured on a processor with 2 MiB of second-level cache per core
  // (Intel Sapphire Rapids). V, M and the U in use take 1.5 MiB of it.
  static constexpr int64_t kOutBlocks = 2;  // blocks of outputs that one input transform serves
  static constexpr int64_t kTileMatrices = 36 * 48;  // tiles times positions; more where all of U
  static constexpr int64_t kTileMatricesFar = 36 * 72;  // is in the third-level cache, since each
  static constexpr int64_t kNearChannels = 128;         // block reads all of U

  static constexpr int64_t kFewBlocks = 2;

  int64_t group() const { return std::min(round_up(channels_, kUnit), kOutBlocks * kBlock); }
  int64_t groups() const { return ceil_div(channels_, group()); }

  /// One more than fit, where there are few and an odd number of pieces: two threads are common.
  /// Never more for more threads: a channel's moments are summed up block by block.
  int64_t blocks_of(int64_t positions, int64_t in_channels) const {
    constexpr int64_t kMany = 8;
    const int64_t matrices = in_channels > kNearChannels ? kTileMatricesFar : kTileMatrices;
    const int64_t blocks = ceil_div(tiles_, std::max(kWinogradRows, matrices / positions));
    const int64_t pieces = blocks * groups();
    return pieces < kMany && pieces % 2 != 0 ? blocks + 1 : blocks;
  }

  int64_t tiles_, channels_, blocks_;
  DealtWork work_;
};

/// The gradient of the filters.
class FilterGradSplit {
 public:
  FilterGradSplit(int64_t tiles, int64_t positions, int64_t in_channels, int64_t out_channels,
                  int64_t threads)
      : tiles_(tiles),
        out_channels_(out_channels),
        block_tiles_(std::max(kWinogradRows, kTileMatrices / positions)),
        in_blocks_(ceil_div(in_channels, kBlock)),
        out_blocks_(ceil_div(out_channels, kBlock)) {
    const int64_t most = ceil_div(kPieces, in_blocks_ * out_blocks_);
    parts_ = ceil_div(tiles, std::max(4 * block_tiles_, ceil_div(tiles, most)));
    const int64_t channels = std::min(out_channels, kBlock);
    work_ = deal_work(parts_ * in_blocks_ * out_blocks_, threads, ceil_div(channels, kUnit),
                      double(kTransform) / static_cast<double>(channels));
  }

  int64_t parts() const { return parts_; }              // of the tiles: sums of their own
  int64_t block_tiles() const { return block_tiles_; }  // that are multiplied at a time

  struct Task {
    int64_t part, first, last;  // tiles [first, last)
    int64_t in;                 // block of input channels
    int64_t out, last_out;      // output channels [out, last_out)
  };
  int64_t tasks() const { return work_.tasks(); }
  /// May be empty.
  Task operator[](int64_t i) const {
    const DealtWork::Task task = work_[i];
    const int64_t blocks = in_blocks_ * out_blocks_, size = ceil_div(tiles_, parts_);
    const int64_t part = task.piece / blocks, out = task.piece % out_blocks_ * kBlock;
    const int64_t units = ceil_div(std::min(kBlock, out_channels_ - out), kUnit);
    return {part,
            part * size,
            std::min((part + 1) * size, tiles_),
            task.piece % blocks / out_blocks_,
            out + task.begin(units) * kUnit,
            std::min(out + task.end(units) * kUnit, out_channels_)};
  }

 private:
  static constexpr int64_t kTileMatrices = 36 * 32;  // tiles times positions, at a time
  static constexpr int64_t kPieces = 16;             // about so many pieces of work

  int64_t tiles_, out_channels_, block_tiles_, in_blocks_, out_blocks_, parts_ = 1;
  DealtWork work_;
};

}  // namespace lathe::cpu::winograd
