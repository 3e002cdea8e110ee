// Eigen's matrix product, compiled once per instruction set: gemm_kernel_base.cpp for the build's
// baseline and, on x86-64, gemm_kernel_avx2.cpp for AVX2 + FMA. gemm.cpp picks one at run time.
//
// Eigen chooses its vector width by the compiler's flags. Its functions are templates, of which the
// linker keeps one copy, for whichever width. So each of the two files renames Eigen's namespace
// before it includes Eigen: then their copies have different names.
#pragma once

#include "lathe/core/x86_levels.h"
#include "lathe/ops/matmul_kernels/gemm.h"

namespace lathe::cpu {

/// gemm_serial for row-major c.
struct GemmKernels {
  void (*f32)(const MatrixRef<float>&, const MatrixRef<const float>&, const MatrixRef<const float>&,
              GemmMode);
  void (*f64)(const MatrixRef<double>&, const MatrixRef<const double>&,
              const MatrixRef<const double>&, GemmMode);
};

GemmKernels gemm_kernels_base();
GemmKernels gemm_kernels_avx2();

// gemm_kernel_avx2.cpp exists on x86-64 only, where the processor may or may not have AVX2 and FMA.
#if defined(__x86_64__) && defined(__GNUC__)
inline GemmKernels best_gemm_kernels() {
  return has_avx2() ? gemm_kernels_avx2() : gemm_kernels_base();
}
#else
inline GemmKernels best_gemm_kernels() { return gemm_kernels_base(); }
#endif

}  // namespace lathe::cpu
