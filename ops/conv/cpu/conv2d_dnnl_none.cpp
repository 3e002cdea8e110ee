// A build without oneDNN, whose engines are never chosen. Contracts: conv2d_dnnl.h.
#include "lathe/ops/conv/cpu/conv2d_dnnl.h"

#include "lathe/core/error.h"

namespace lathe::cpu {

[[noreturn]] static void fail() { LATHE_FAIL(StateError, "conv2d: this build has no oneDNN"); }

OneDnnInfo onednn_info() { return {}; }
CpuConvMachine conv_machine() noexcept { return {}; }

void onednn_forward(const CpuChoice&, const Conv2dGeometry&, const Tensor&, const Tensor&,
                    const Tensor&, const Tensor&) {
  fail();
}
void onednn_backward_input(const CpuChoice&, const Conv2dGeometry&, const Tensor&, const Tensor&,
                           const Tensor&) {
  fail();
}
void onednn_backward_weight(const CpuChoice&, const Conv2dGeometry&, const Tensor&, const Tensor&,
                            const Tensor&) {
  fail();
}

}  // namespace lathe::cpu
