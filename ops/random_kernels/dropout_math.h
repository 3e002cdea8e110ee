// The arithmetic of ops/dropout.h, shared by host and device. Element i uses word i % 4 of Philox
// counter start.offset + i / 4.
#pragma once

#include "lathe/core/config.h"
#include "lathe/core/random/philox.h"

namespace lathe::math {

/// C is the compute type.
template <class C>
struct Dropout {
  float p;
  C scale;
  LATHE_HD C operator()(C x, uint32_t word) const {
    const C kept = x * scale;
    return uniform_from_bits(word) < p ? C(0) : kept;
  }
};

}  // namespace lathe::math
