// CPU kernel of cumsum. Each line is summed in order; the threads divide the lines. Contract:
// cumsum.h.
#include <algorithm>

#include "lathe/core/ceil_div.h"
#include "lathe/core/strided_loop.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/cumsum.h"
#include "lathe/ops/reduce_kernels/cumsum_math.h"

namespace lathe {

namespace {

constexpr int64_t kColumns = 64;  // adjacent lines that are summed together

template <class Out, class T>
void run(Out* y, const T* x, int64_t outer, int64_t n, int64_t inner, bool reverse) {
  using A = math::RunningSum<Out>;
  const int64_t tiles = ceil_div(inner, kColumns);
  const int64_t grain = std::max<int64_t>(1, kParallelGrain / (n * std::min(inner, kColumns)));
  const int64_t step = reverse ? -inner : inner;
  parallel_for(outer * tiles, grain, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t first = item % tiles * kColumns, width = std::min(kColumns, inner - first);
      int64_t at = item / tiles * n * inner + first + (reverse ? (n - 1) * inner : 0);
      if (inner == 1) {
        A total = A(0);
        for (int64_t i = 0; i < n; ++i, at += step) {
          total += static_cast<A>(x[at]);
          y[at] = static_cast<Out>(total);
        }
        continue;
      }
      A total[kColumns] = {};
      for (int64_t i = 0; i < n; ++i, at += step) {
        for (int64_t c = 0; c < width; ++c) {
          total[c] += static_cast<A>(x[at + c]);
          y[at + c] = static_cast<Out>(total[c]);
        }
      }
    }
  });
}

}  // namespace

void cpu::cumsum(const Tensor& y, const Tensor& x, int64_t n, int64_t inner, bool reverse) {
  if (x.numel() == 0) return;
  const int64_t outer = x.numel() / (n * inner);
  visit_all(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Out = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
    run(y.data<Out>(), x.data<T>(), outer, n, inner, reverse);
  });
}

}  // namespace lathe
