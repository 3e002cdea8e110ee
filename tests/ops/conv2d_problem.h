// A convolution's tensors, for tests of the engines by which a CPU computes it.
#pragma once

#include <cmath>
#include <vector>

#include "conv2d_cases.h"
#include "lathe/core/copy.h"
#include "lathe/core/tensor.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/conv/conv_pass.h"
#include "lathe/ops/conv/cpu/conv2d_depthwise_cpu.h"
#include "lathe/ops/conv/cpu/conv2d_dnnl.h"
#include "lathe/ops/conv/cpu/conv2d_engines_cpu.h"
#include "lathe/ops/conv/cpu/conv2d_pointwise_cpu.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"

namespace lathe::test {

using cpu::CpuEngine;

inline constexpr ConvPass kPasses[] = {ConvPass::kForward, ConvPass::kBackwardInput,
                                       ConvPass::kBackwardWeight};

struct ExactScope {
  explicit ExactScope(bool exact) : before(cpu::conv_exact()) { cpu::set_conv_exact(exact); }
  ~ExactScope() { cpu::set_conv_exact(before); }
  bool before;
};

/// The tensors of a case, in f32.
struct Problem {
  Problem(const Conv2dCase& c, MemoryFormat format, MemoryFormat w_format = kContiguous)
      : g(conv2d_geometry("test", c.x, c.w, c.opt)), opt(c.opt) {
    manual_seed(4);
    x = in(format, randn(c.x));
    w = in(w_format, randn(c.w));
    dy = in(format, randn(g.y_shape()));
    result[0] = nan(g.y_shape(), format);
    result[1] = nan(g.x_shape(), format);
    result[2] = nan(g.w_shape(), w_format);
  }
  static Tensor nan(const Shape& shape, MemoryFormat format) {  // every element must be written
    return in(format, full(shape, NAN, {.dtype = kF32}));
  }
  /// A copy whose strides are those of the format, also where its sizes fit both.
  static Tensor in(MemoryFormat format, const Tensor& t) {
    Tensor copy = empty_in(format, t.shape(), kF32, kCPU);
    copy_values(copy, t);
    return copy;
  }

  const Tensor& of(ConvPass pass) const { return result[static_cast<size_t>(pass)]; }
  /// All engines that take these sizes, whether they are chosen or not.
  std::vector<CpuEngine> engines() const {
    std::vector<CpuEngine> all{CpuEngine::kIm2col};
    const cpu::CpuConvMachine machine = cpu::conv_machine();
    if (machine.onednn) all.push_back(CpuEngine::kOneDnnBlocks);
    if (machine.winograd && cpu::winograd_takes(g)) all.push_back(CpuEngine::kOneDnnWinograd);
    if (conv2d_format(x) != kChannelsLast) return all;
    if (machine.onednn) all.push_back(CpuEngine::kOneDnnNhwc);
    if (cpu::winograd_takes(g)) all.push_back(CpuEngine::kWinograd4);
    if (cpu::winograd_takes(g) && g.stride == Pair(1)) all.push_back(CpuEngine::kWinograd2);
    if (cpu::pointwise_takes(g)) all.push_back(CpuEngine::kProducts);
    if (cpu::depthwise_takes(g)) all.push_back(CpuEngine::kDepthwise);
    return all;
  }
  CpuEngine chosen(ConvPass pass) const {
    return cpu::conv2d_choice({pass, g, conv2d_format(x), kF32}).engine;
  }
  /// The pass by an engine, into memory of its own.
  Tensor by(CpuEngine engine, ConvPass pass) const {
    const cpu::CpuChoice choice{engine};
    const Tensor to = nan(of(pass).shape(), memory_format_of(of(pass)));
    if (pass == ConvPass::kForward) cpu::conv2d_forward_by(choice, g, to, x, w, {}, {}, nullptr);
    if (pass == ConvPass::kBackwardInput) cpu::conv2d_backward_input_by(choice, g, to, dy, w);
    if (pass == ConvPass::kBackwardWeight) cpu::conv2d_backward_weight_by(choice, g, to, dy, x);
    return to;
  }
  /// The pass by the ops.
  Tensor by_ops(ConvPass pass) const {
    if (pass == ConvPass::kForward) return conv2d(x, w, opt);
    if (pass == ConvPass::kBackwardInput) return conv2d_input_grad(dy, w, x.shape(), opt);
    return conv2d_weight_grad(dy, x, w.shape(), opt, memory_format_of(w));
  }
  /// The same in f64.
  Tensor exact(ConvPass pass) const {
    Problem wide = *this;
    wide.x = cast(x, kF64), wide.w = cast(w, kF64), wide.dy = cast(dy, kF64);
    return wide.by_ops(pass);
  }

  Conv2dGeometry g;
  Conv2dOptions opt;
  Tensor x, w, dy, result[3];
};

inline std::vector<float> bits(const Tensor& t) { return t.to_vector<float>(); }

inline const Conv2dCase kBlock{"a ResNet block", {4, 64, 16, 16}, {64, 64, 3, 3}, {.pad = 1}};
inline const Conv2dCase kSmall{"a small layer", {2, 16, 8, 8}, {16, 16, 3, 3}, {.pad = 1}};
inline const Conv2dCase kLargeCases[] = {
    kBlock,
    kSmall,
    {"stride 2", {4, 32, 16, 16}, {64, 32, 3, 3}, {.stride = 2, .pad = 1}},
    {"short rows", {2, 64, 4, 4}, {64, 64, 3, 3}, {.pad = 1}},
    {"products", {4, 64, 8, 8}, {128, 64, 1, 1}},
    {"the shortcut's products", {4, 64, 8, 8}, {128, 64, 1, 1}, {.stride = 2}},
    {"stem", {4, 3, 16, 16}, {16, 3, 3, 3}, {.pad = 1}},
    {"odd channel counts", {2, 67, 8, 8}, {65, 67, 3, 3}, {.pad = 1}},
    {"odd channel counts, products", {2, 67, 8, 8}, {65, 67, 1, 1}},
    {"depthwise", {2, 40, 9, 9}, {40, 1, 3, 3}, {.pad = 1, .groups = 40}},
    {"grouped", {2, 32, 9, 9}, {64, 8, 3, 3}, {.pad = 1, .groups = 4}},
};

}  // namespace lathe::test
