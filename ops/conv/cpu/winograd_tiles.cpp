// InputReader: what Winograd's passes read. Contract: winograd_tiles.h.
#include "lathe/ops/conv/cpu/winograd_tiles.h"

namespace lathe::cpu::winograd {

const PixelTable<const float>& InputReader::tile(const TilePlace& place, int64_t channel,
                                                 int64_t channels) {
  tiles_.inputs(pixels_, x_, place, channel);
  if (before_.mean == nullptr) return pixels_;
  const int64_t side = tiles_.kernels.inputs;
  batch_norm_relu_pixels(copies_.data(), pixels_.data(), side * side, &kZeros[0], channels,
                         {before_.mean + channel, before_.scale + channel, before_.bias + channel});
  return pixels_;
}

}  // namespace lathe::cpu::winograd
