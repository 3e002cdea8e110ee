// How oneDNN runs a convolution of given sizes: its primitive, made once per size and kept
// (conv2d_primitive_dnnl.cpp). Included by conv2d_dnnl.cpp, conv2d_primitive_dnnl.cpp and
// quantized_conv2d_dnnl.cpp only.
#pragma once

#include <memory>
#include <optional>

#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/conv/conv_pass.h"
#include "lathe/ops/conv/cpu/conv2d_choice_cpu.h"
#include "lathe/ops/onednn/onednn.h"

namespace lathe::cpu {

using Layout = dnnl::memory::desc;

/// One of a primitive's tensors: as the caller has it, as the primitive wants it, and the reorder
/// between the two.
struct Conv2dPort {
  Layout user, wanted;
  std::optional<dnnl::reorder> reorder;  // absent where the two agree
};

/// A primitive with its tensors.
struct Conv2dPrimitive {
  dnnl::primitive primitive;
  Conv2dPort x, w, y;  // or their gradients
  Layout scratchpad;
};

/// On how many threads a convolution, or a reorder of such a tensor, is computed: on one where it
/// takes less time than another thread may need to wake up. OpenMP's threads sleep between calls,
/// and 70 to 200 us were seen on a virtual machine.
int conv2d_threads(const Conv2dGeometry& g);
int reorder_threads(const Layout& tensor);

/// The primitive of this pass by an engine of oneDNN, for dnnl_threads() as it is now. Make and
/// run it in the scope of OmpThreads(conv2d_threads(g)), its reorders in that of theirs. Its
/// tensors have the order and dtype (f32 or bf16) of `x`, its filters the order of `w`. For
/// kBackwardInput `x` is dy, because a 1x1 plane of dx fits both orders. Thread-safe.
/// throws: dnnl::error.
std::shared_ptr<const Conv2dPrimitive> conv2d_primitive(CpuEngine engine, ConvPass pass,
                                                        const Conv2dGeometry& g, const Tensor& x,
                                                        const Tensor& w, bool has_bias);

/// True if this oneDNN has Winograd on this processor. If not, all primitives are direct.
bool dnnl_has_winograd();

}  // namespace lathe::cpu
