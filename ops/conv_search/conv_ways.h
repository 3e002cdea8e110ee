// The ways in which a CPU computes a convolution: the engines of its search. Their numbers stand in
// files, so they stay. What each of them takes: ops/conv/conv2d_ways_cpu.h.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "lathe/core/config.h"
#include "lathe/ops/conv_search/conv_engines.h"
#include "lathe/ops/conv_search/conv_key.h"

namespace lathe {

/// Words in texts: winograd-4x4, winograd-2x2, products, onednn-direct, onednn-blocks,
/// onednn-winograd, im2col.
enum class ConvWay : uint8_t {
  kByLibrary = 0,     // as oneDNN's rule chooses, in a build without it im2col; never an engine
  kWinograd4 = 1,     // our F(4x4,3x3)
  kWinograd2 = 2,     // our F(2x2,3x3)
  kProducts = 3,      // our matrix products of 1x1 filters
  kDnnlDirect = 4,    // oneDNN's direct kernels on NHWC images as they are
  kDnnlBlocks = 5,    // the same on images that are reordered into blocks of channels
  kDnnlWinograd = 6,  // oneDNN's Winograd
  kIm2col = 7,        // our copies of all patches, and products
};

LATHE_API std::string_view name_of(ConvWay way);

inline ConvEngine engine_of(ConvWay way) { return {static_cast<int64_t>(way), {}}; }

/// An engine for people: on a CPU the name of its way, else its text ("34:2=4,24=8").
LATHE_API std::string engine_text(const ConvKey& key, const ConvEngine& engine);

}  // namespace lathe
