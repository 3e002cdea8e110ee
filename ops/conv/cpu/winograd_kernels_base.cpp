// Winograd's inner loops for the build's baseline. Contract: winograd_kernels.h.
#include "lathe/ops/conv/cpu/winograd_vector.h"

namespace lathe::cpu {

WinogradKernelSet winograd_kernels_base() { return kKernels; }

}  // namespace lathe::cpu
