// Which engine a CPU takes for a convolution. Everything that computes one asks here, and nothing
// else decides. Nothing is timed, so two runs give the same bits. conv2d_engines_cpu.h runs them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "lathe/core/dtype.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/conv/conv_pass.h"
#include "lathe/ops/conv/cpu/conv2d_winograd_cpu.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/memory_format.h"

namespace lathe::cpu {

/// A CPU's engines. The last three are oneDNN's. Words in texts: winograd4, winograd2, products,
/// depthwise, im2col, amx, onednn_winograd, onednn_nhwc, onednn_blocks.
enum class CpuEngine : uint8_t {
  kWinograd4,       // our F(4x4,3x3)
  kWinograd2,       // our F(2x2,3x3)
  kProducts,        // our matrix products of 1x1 filters
  kDepthwise,       // our loops for a filter per channel
  kIm2col,          // our copies of all patches, and products
  kAmx,             // our weight gradient of bf16 images in tile registers
  kOneDnnWinograd,  // F(4x4,3x3); direct for the sizes that oneDNN does not take
  kOneDnnNhwc,      // direct sums over NHWC images as they are
  kOneDnnBlocks,    // direct sums over blocks of channels, into which images are reordered
};

/// The tile of an engine that is our own Winograd.
std::optional<WinogradTile> winograd_tile(CpuEngine engine);

/// All that the choice depends on, but for the machine.
struct CpuConvKey {
  ConvPass pass = ConvPass::kForward;
  Conv2dGeometry g;
  MemoryFormat format = kContiguous;  // of the images
  DType dtype = kF32;                 // of the images
  bool constant_filters = false;      // as in Conv2dEpilogue
  bool exact = conv_exact();
};

/// What this build has and the processor can do.
struct CpuConvMachine {
  bool onednn = false;           // the build has it
  bool winograd = false;         // oneDNN has Winograd
  bool bf16 = false;             // oneDNN multiplies bf16 without emulating it
  bool tiles = false;            // in tile registers (AMX)
  bool fast_short_rows = false;  // oneDNN is fast in NHWC also where rows of output are short
  int threads = 1;               // of oneDNN
};

/// The engine that is taken for a key, with its setting.
struct CpuChoice {
  CpuEngine engine = CpuEngine::kIm2col;
  DType dtype = kF32;  // the engine computes in it; tensors of another dtype are copied
  int64_t images = 1;  // of oneDNN: so many small images stand side by side (conv2d_strips_cpu.h)

  bool operator==(const CpuChoice&) const = default;
};
/// "onednn_nhwc bf16, 16 images side by side".
void append_text(std::string& out, const CpuChoice& choice);

/// The choice on this machine (conv_machine() in conv2d_dnnl.h).
CpuChoice conv2d_choice(const CpuConvKey& key);
/// The choice on another one.
CpuChoice conv2d_choice(const CpuConvKey& key, const CpuConvMachine& machine);

}  // namespace lathe::cpu
