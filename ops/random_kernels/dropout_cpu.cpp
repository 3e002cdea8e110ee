// CPU kernel of dropout. One Philox counter decides about four elements. A first loop makes the
// random words of a block, a second one selects: neither has branches, so compilers turn both into
// vector code. Contract: dropout.h.
#include <algorithm>

#include "lathe/core/copy.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/ops/dropout.h"
#include "lathe/ops/random_kernels/dropout_math.h"
#include "lathe/ops/random_kernels/random_words.h"

namespace lathe {

namespace {

constexpr int64_t kBlockCounters = 256, kBlocksPerTask = 16;

template <class T>
LATHE_CLONES void choose_kept(T* __restrict__ y, const T* __restrict__ x,
                              const uint32_t* __restrict__ words,
                              math::Dropout<ComputeType<T>> drop, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = T(drop(ComputeType<T>(x[i]), words[i]));
}

}  // namespace

void cpu::dropout(const Tensor& y, const Tensor& x, double p, double scale,
                  Generator::State start) {
  const int64_t n = x.numel(), blocks = (n + 4 * kBlockCounters - 1) / (4 * kBlockCounters);
  if (n == 0) return;
  if (!x.is_contiguous() || !y.is_contiguous()) {
    const Tensor from = empty(x.shape(), {.dtype = x.dtype()}), to = empty_like(from);
    copy_values(from, x);
    dropout(to, from, p, scale, start);
    return copy_values(y, to);
  }
  visit_float(x.dtype(), "dropout", [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* out = y.data<T>();
    const T* in = x.data<T>();
    const math::Dropout<ComputeType<T>> drop{static_cast<float>(p),
                                             static_cast<ComputeType<T>>(scale)};
    parallel_for(blocks, kBlocksPerTask, [&](int64_t begin, int64_t end) {
      uint32_t words[4 * kBlockCounters];
      for (int64_t b = begin; b < end; ++b) {
        const int64_t first = b * 4 * kBlockCounters,
                      count = std::min(4 * kBlockCounters, n - first);
        const uint64_t counter = start.offset + static_cast<uint64_t>(b * kBlockCounters);
        random_words(words, {start.seed, counter}, (count + 3) / 4);
        choose_kept(out + first, in + first, words, drop, count);
      }
    });
  });
}

}  // namespace lathe
