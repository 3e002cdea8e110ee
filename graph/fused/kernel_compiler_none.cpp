// Builds without NVRTC's header compile no kernels at run time. Contract: kernel_compiler.h.
#include "lathe/core/error.h"
#include "lathe/graph/fused/kernel_compiler.h"

namespace lathe::jit {

namespace {

[[noreturn]] void refuse_to_compile() {
  LATHE_FAIL(NoCudaError, "NVRTC: this build was configured without CUDA's toolkit or its nvrtc.h");
}

}  // namespace

std::string compile_kernels(const std::string&, const std::string&) { refuse_to_compile(); }

std::string kernel_target(int, int) { refuse_to_compile(); }

}  // namespace lathe::jit
