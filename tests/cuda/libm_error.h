// How far CUDA's exp, sin, pow … may be from the host's.
#pragma once

#include "../ops/compare.h"

namespace lathe::test {

/// The tolerance of difference() for results that are `ulps` from exact on a GPU ("Mathematical
/// Functions" in the CUDA programming guide) and one on the host; 0 where the host's compiler
/// translated the kernels, which then call the same function. Half types are computed in f32 and
/// rounded once: the neighbour at most. `form_ulps`: how far the CPU's form of an f32 function is
/// from exact, if it has one that is not the kernel's (ops/elementwise_kernels/angle_forms.h,
/// ops/avx512_math.h).
inline double libm_error(DType dtype, double ulps, double form_ulps = 0) {
  const bool has_form = form_ulps > 0 && dtype != kF64;
  if (!kHasCudaLibraries && !has_form) return 0;
  switch (dtype) {
    case kF16: return 0x1p-10;
    case kBF16: return 0x1p-7;
    case kF32: return (ulps + 1 + form_ulps) * 0x1p-23;
    default: return (ulps + 1) * 0x1p-52;
  }
}

}  // namespace lathe::test
