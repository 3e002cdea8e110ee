// A plan: everything that the sizes of a convolution decide about its run in oneDNN. Made once per
// size and kept. Included by conv2d_dnnl.cpp and conv2d_plan_dnnl.cpp only.
#pragma once

#include <memory>
#include <optional>

#include "lathe/ops/conv/conv2d_geometry.h"
#include "lathe/ops/onednn.h"

namespace lathe::cpu {

using Layout = dnnl::memory::desc;

enum class Conv2dPass : int64_t { kForward, kBackwardInput, kBackwardWeight };

/// One of a primitive's tensors: as the caller has it, as the primitive wants it, and the way
/// between the two.
struct Conv2dPort {
  Layout user, wanted;
  std::optional<dnnl::reorder> reorder;  // absent where the two agree
};

struct Conv2dPlan {
  dnnl::primitive primitive;
  Conv2dPort x, w, y;  // or their gradients
  Layout scratchpad;
};

/// The plan of this pass for tensors in the order and dtype (f32 or bf16) of `x` (of dy for
/// kBackwardInput: of a 1x1 plane both orders look alike), filters in the order of `w`, for
/// cpu::conv_exact() and num_threads() as they are now. Thread-safe. throws: dnnl::error.
std::shared_ptr<const Conv2dPlan> conv2d_plan(Conv2dPass pass, const Conv2dGeometry& g,
                                              const Tensor& x, const Tensor& w, bool has_bias);

/// Does this oneDNN know Winograd on this processor? Plans are direct ones where it does not.
bool dnnl_has_winograd();

}  // namespace lathe::cpu
