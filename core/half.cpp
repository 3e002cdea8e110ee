// Bulk conversions between float and the half types; see half.h.
#include "lathe/core/half.h"

namespace lathe {

namespace {

// Plain loops: the conversions are free of branches, so the compiler turns them into vector code.
// `always_inline`, so that each clone below compiles the loop for its own instruction set.
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
