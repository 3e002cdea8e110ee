// Bulk conversions between float and the half types, as vector code.
#include "lathe/core/half.h"

namespace lathe {

namespace {

// Plain loops: the conversions have no branches, so the compiler vectorises them. `always_inline`
// makes each clone below compile the loop for its own instruction set.
template <class To, class From>
[[gnu::always_inline]] inline void convert_loop(To* __restrict__ to, const From* __restrict__ from,
                                                int64_t n) {
  for (int64_t i = 0; i < n; ++i) to[i] = static_cast<To>(from[i]);
}

}  // namespace

LATHE_CLONES void convert(Half* to, const float* from, int64_t n) { convert_loop(to, from, n); }
LATHE_CLONES void convert(float* to, const Half* from, int64_t n) { convert_loop(to, from, n); }
LATHE_CLONES void convert(BFloat16* to, const float* from, int64_t n) { convert_loop(to, from, n); }
LATHE_CLONES void convert(float* to, const BFloat16* from, int64_t n) { convert_loop(to, from, n); }

}  // namespace lathe
