// How the CPU kernels of batch normalisation cut a tensor into tiles that stay in the cache.
// Tiles depend on the shape only, never on the number of threads.
#pragma once

#include <algorithm>
#include <type_traits>
#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/deal_work.h"
#include "lathe/core/half.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/batch_norm_kernels/batch_norm_rows_cpu.h"

namespace lathe::cpu {

// Elements: 64 KiB of float, which fit beside other data in any second-level cache.
inline constexpr int64_t kTile = 16384;
inline constexpr int64_t kMinWidth = 128;  // NHWC: the least number of columns in a tile's row

/// One run of memory. `shape` covers all of it, except that an NHWC tile may end with a shorter
/// row.
struct Tile {
  int64_t begin, size;  // elements
  TileShape shape;
  int64_t last_width;  // of the shorter row after shape.rows others, 0 if there is none
  int64_t channel;     // of the first row or column
  int64_t part;        // index of the partial result of its channels that this tile computes
};

/// How a tensor [N,C,…] is cut into tiles.
class Tiles {
 public:
  explicit Tiles(const Tensor& x) : channels_(x.dim(1)) {
    const int64_t n = x.dim(0);
    plane_ = n * channels_ == 0 ? 0 : x.numel() / (n * channels_);
    interleaved_ = plane_ == 1 || !x.is_contiguous();
    if (x.numel() == 0) return;
    if (interleaved_) {
      repeat_ = std::max<int64_t>(1, ceil_div(kMinWidth, channels_));
      const int64_t width = repeat_ * channels_;
      step_ = std::max<int64_t>(1, kTile / width) * width;
      total_ = x.numel();
      parts_ = count_ = ceil_div(total_, step_);
    } else {
      planes_ = std::min(channels_, std::max<int64_t>(1, kTile / plane_));
      groups_ = ceil_div(channels_, planes_);
      pieces_ = ceil_div(plane_, kTile);
      parts_ = n * pieces_;
      count_ = n * groups_ * pieces_;
    }
  }

  bool interleaved() const { return interleaved_; }
  int64_t count() const { return count_; }
  int64_t parts() const { return parts_; }    // partial results per channel
  int64_t repeat() const { return repeat_; }  // NHWC: pixels per row of a tile
  int64_t channels() const { return channels_; }

  Tile operator[](int64_t i) const {
    if (interleaved_) {
      const int64_t begin = i * step_, size = std::min(step_, total_ - begin);
      const int64_t width = repeat_ * channels_;
      return {begin, size, {size / width, width, ChannelAlong::kColumns}, size % width, 0, i};
    }
    const int64_t piece = i % pieces_, group = i / pieces_ % groups_, n = i / pieces_ / groups_;
    const int64_t channel = group * planes_, offset = piece * kTile;
    const int64_t rows = std::min(planes_, channels_ - channel);
    const int64_t width = std::min(kTile, plane_ - offset);
    return {(n * channels_ + channel) * plane_ + offset,
            rows * width,
            {rows, width, ChannelAlong::kRows},
            0,
            channel,
            n * pieces_ + piece};
  }

  /// Values of each channel in part `part`.
  int64_t part_size(int64_t part) const {
    if (interleaved_) return (*this)[part].size / channels_;
    return std::min(kTile, plane_ - part % pieces_ * kTile);
  }

 private:
  bool interleaved_;
  int64_t channels_, plane_;
  int64_t count_ = 0, parts_ = 0;
  int64_t repeat_ = 1, step_ = 1, total_ = 0;     // interleaved
  int64_t planes_ = 1, groups_ = 1, pieces_ = 1;  // planes
};

/// Uninitialised memory for a number of each part and channel, [parts, C]. It comes from the
/// allocator's cache: with memory that is fresh from the system, page faults would cost more than
/// the sums.
template <class S>
Tensor part_numbers(const Tiles& tiles) {
  const profile::MemoryTagScope workspace(profile::MemoryTag::kWorkspace);
  return empty({tiles.parts(), tiles.channels()}, {.dtype = dtype_of<S>});
}

/// Calls f(begin, end) for ranges of channels, in parallel. f goes over all parts of its channels,
/// which takes about a nanosecond for each part and channel.
template <class F>
void for_channels(const Tiles& tiles, F f) {
  constexpr int64_t kGrain = 10'000;  // parts and channels
  const int64_t channels = std::max<int64_t>(32, kGrain / std::max<int64_t>(1, tiles.parts()));
  parallel_for(tiles.channels(), channels, f);
}

/// Some rows of a tile: those of the task's part, and the shorter row with the last.
inline Tile part_of(const Tile& tile, const DealtWork::Task& task) {
  const TileShape& all = tile.shape;
  const int64_t first = task.begin(all.rows), rows = task.end(all.rows) - first;
  const int64_t last_width = task.part + 1 == task.parts ? tile.last_width : 0;
  return {tile.begin + first * all.width,
          rows * all.width + last_width,
          {rows, all.width, all.channels},
          last_width,
          tile.channel + (all.channels == ChannelAlong::kRows ? first : 0),
          tile.part};
}

/// How a loop whose numbers depend on one element each is divided: whole tiles, then parts of them,
/// which have whole rows and are worth a task.
inline DealtWork deal_tiles(const Tiles& tiles, int64_t threads) {
  constexpr int64_t kMostParts = 8, kLeastPart = kTile / kMostParts;
  constexpr double kAgain = 0.02;  // handing out a task
  if (tiles.count() == 0) return {};
  const Tile first = tiles[0];
  const int64_t parts = std::min({kMostParts, first.shape.rows, first.size / kLeastPart});
  return deal_work(tiles.count(), threads, std::max(parts, int64_t{1}), kAgain);
}

/// Calls f(tile) for all elements in parallel, a tile or a part of one at a time.
template <class F>
void for_tiles(const Tiles& tiles, F f) {
  const DealtWork work = deal_tiles(tiles, num_threads());
  parallel_for(work.tasks(), 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) f(part_of(tiles[work[i].piece], work[i]));
  });
}

/// Calls f(shape, start) for the tile and once more for its shorter last row.
template <class F>
void for_parts(const Tile& tile, F f) {
  if (tile.shape.rows > 0) f(tile.shape, int64_t{0});
  if (tile.last_width > 0) {
    f(TileShape{1, tile.last_width, tile.shape.channels}, tile.shape.rows * tile.shape.width);
  }
}

/// The type in which the loops read a tensor of T: f16 is converted first.
template <class T>
using LoopType = std::conditional_t<std::is_same_v<T, Half>, float, T>;
template <class T>
using Loops = TileLoops<LoopType<T>>;

/// Values of a tile as a LoopType: the tensor's own memory, or a converted copy for f16.
template <class T>
class TileBuffer {
 public:
  using Loop = LoopType<T>;
  static constexpr bool kCopies = !std::is_same_v<T, Loop>;

  explicit TileBuffer(int64_t size) : copy_(static_cast<size_t>(kCopies ? size : 0)) {}

  const Loop* load(const T* from, int64_t size) {
    if constexpr (!kCopies)
      return from;
    else if (from == nullptr)
      return nullptr;
    else
      return convert(copy_.data(), from, size), copy_.data();
  }
  Loop* target(T* to) {
    if constexpr (!kCopies)
      return to;
    else
      return to == nullptr ? nullptr : copy_.data();
  }
  void store(T* to, int64_t size) {
    if constexpr (kCopies) {
      if (to != nullptr) convert(to, copy_.data(), size);
    }
  }

 private:
  std::vector<Loop> copy_;
};

template <class T>
T* at(const Tensor& t, const Tile& tile) {
  return t.defined() ? t.data<T>() + tile.begin : nullptr;
}

/// A parameter per channel, repeated over the columns of an NHWC tile. If `t` is undefined, all
/// are `absent`.
template <class S>
std::vector<S> spread(const Tiles& tiles, const Tensor& t, S absent) {
  const int64_t c = tiles.channels();
  std::vector<S> out(static_cast<size_t>(c * tiles.repeat()), absent);
  if (!t.defined()) return out;
  for (size_t i = 0; i < out.size(); ++i) {
    out[i] = t.data<S>()[static_cast<int64_t>(i) % c * t.stride(0)];
  }
  return out;
}

/// Turns a tile's sums per column into sums per channel: the repeats are added to the first.
template <class S>
void fold_repeats(const Tiles& tiles, S* sums) {
  const int64_t c = tiles.channels();
  for (int64_t from = c; from < c * tiles.repeat(); from += c) {
    for (int64_t k = 0; k < c; ++k) sums[k] += sums[from + k];
  }
}

/// The numbers that turn x into y.
template <class S>
struct ApplyParams {
  ApplyParams(const Tiles& tiles, const BatchNormCall& call)
      : mean(spread<S>(tiles, call.mean, S(0))),
        scale(spread<S>(tiles, call.weight, S(1))),
        bias(spread<S>(tiles, call.bias, S(0))) {
    const std::vector<S> invstd = spread<S>(tiles, call.invstd, S(1));
    for (size_t i = 0; i < scale.size(); ++i) scale[i] *= invstd[i];
  }

  TileParams<S> from(int64_t channel) const {
    return {mean.data() + channel, scale.data() + channel, bias.data() + channel, nullptr, nullptr};
  }

  std::vector<S> mean, scale, bias;
};

}  // namespace lathe::cpu
