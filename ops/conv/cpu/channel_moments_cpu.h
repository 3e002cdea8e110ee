// Mean and variance of each channel of a convolution's result, summed up while its blocks are in
// the cache, for the batch norm that follows. Used by conv2d_winograd_cpu.cpp and
// conv2d_pointwise_cpu.cpp.
#pragma once

#include <cstdint>

#include "lathe/core/tensor.h"
#include "lathe/ops/conv/cpu/winograd_tiles.h"

namespace lathe::cpu {

/// The sums of one block of pixels, of up to winograd::kBlock channels: of deviations from the
/// block's first pixel, so that few digits cancel where the mean is far from zero.
struct BlockMoments {
  alignas(64) float shift[winograd::kBlock], sums[winograd::kBlock] = {};
  alignas(64) float squares[winograd::kBlock] = {};
  int64_t count = 0;

  /// Adds pixels, each given by its first channel.
  void add(const float* const* pixels, int64_t n, int64_t channels);
};

/// The moments of all blocks. They are joined in the order of the blocks, which depends on the
/// sizes alone, so any number of threads gives the same bits.
class ChannelMoments {
 public:
  ChannelMoments(int64_t blocks, int64_t channels);

  /// Keeps those of a block for the channels [channel, channel + n). Different blocks and channels
  /// may be kept by different threads at once.
  void keep(int64_t block, int64_t channel, int64_t n, const BlockMoments& moments);

  /// f32 [2, channels]: mean and biased variance (Chan et al.). Blocks of no pixels change nothing.
  Tensor joined() const;

 private:
  int64_t blocks_, channels_;
  Tensor means_, squares_;  // [blocks, channels], of deviations from the block's own mean
  Tensor counts_;           // f32 [blocks]
};

}  // namespace lathe::cpu
