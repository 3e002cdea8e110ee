// oneDNN's engines for convolutions: conv2d_dnnl.cpp, or conv2d_dnnl_none.cpp in a build without
// oneDNN.
#pragma once

#include <string>

#include "lathe/core/config.h"
#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/conv/cpu/conv2d_choice_cpu.h"

namespace lathe::cpu {

/// oneDNN in this process, for `lathe info` and the first lines of a training.
struct OneDnnInfo {
  std::string library;    // "oneDNN 3.7.2", the one that was loaded; empty in a build without it
  std::string problem;    // why it cannot be loaded; convolutions then throw this
  bool winograd = false;  // it has Winograd, for row-major images; oneDNN 3 has none for x86
  bool bf16 = false;      // as in CpuConvMachine
};
LATHE_API OneDnnInfo onednn_info();

/// Describes this machine. If oneDNN cannot be loaded, it counts as a oneDNN that has no more than
/// direct sums.
CpuConvMachine conv_machine() noexcept;

/// The passes by an engine of oneDNN; tensors as conv2d_engines_cpu.h has them.
/// throws: StateError in a build without oneDNN.
void onednn_forward(const CpuChoice& choice, const Conv2dGeometry& g, const Tensor& y,
                    const Tensor& x, const Tensor& w, const Tensor& bias);
void onednn_backward_input(const CpuChoice& choice, const Conv2dGeometry& g, const Tensor& dx,
                           const Tensor& dy, const Tensor& w);
void onednn_backward_weight(const CpuChoice& choice, const Conv2dGeometry& g, const Tensor& dw,
                            const Tensor& dy, const Tensor& x);

}  // namespace lathe::cpu
