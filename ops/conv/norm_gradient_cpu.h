// The first pass of a batch norm's gradient, done to the input gradient of a convolution while its
// blocks are in the cache: what relu passed of it, and the sums that the norm needs. Used by
// conv2d_winograd_cpu.cpp and conv2d_pointwise_cpu.cpp.
#pragma once

#include <cstdint>
#include <vector>

#include "lathe/core/tensor.h"
#include "lathe/ops/batch_norm_conv2d.h"

namespace lathe::cpu {

/// The norm whose result the convolution read, and a gradient that this result already has. All are
/// f32 in NHWC, of one shape.
struct NormBehind {
  BatchNormCall call;
  Tensor y;       // the mask of kAddRelu, else undefined
  Tensor second;  // is added to the gradient first; undefined: none
};

/// The pass over dx, block by block. Its sums are joined in the order of the blocks, which depends
/// on the sizes alone, so any number of threads gives the same bits.
class NormGradient {
 public:
  /// dx: f32, NHWC, in the norm's shape.
  NormGradient(const NormBehind& norm, const Tensor& dx);

  /// Before anything else: how many blocks there are.
  void reserve(int64_t blocks);

  /// dx = what relu passed of dx + second, for `count` pixels of dx, each given by the first of `n`
  /// channels; `channel` is the number of that. Different blocks and channels may be worked on by
  /// different threads at once.
  void add(int64_t block, int64_t channel, int64_t n, float* const* pixels, int64_t count);

  /// f64 [2,C]: the sums over all pixels of dx and of dx * (x - mean).
  Tensor joined() const;

  /// The tensors that are read at the pixels of dx, from their first number on; three at most.
  const std::vector<const float*>& read() const { return read_; }

 private:
  const NormBehind norm_;
  const int64_t channels_;
  std::vector<float> scale_, bias_;
  PixelNormGrad pass_;
  std::vector<const float*> read_;
  int64_t blocks_ = 0;
  Tensor sums_, products_;  // f32 [blocks, C]
};

}  // namespace lathe::cpu
