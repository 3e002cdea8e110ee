// CPU kernels of ops/random.h. A first loop makes the random words of a block; in a second one, a
// functor of random_math.h turns the words of each counter into a few values. Neither has branches,
// so compilers turn both into vector code. Contract: ops/random.h.
#include "lathe/ops/random_kernels/random_words.h"

#include <algorithm>

#include "lathe/core/ceil_div.h"
#include "lathe/core/copy.h"
#include "lathe/core/random/philox.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/random_kernels/random_math.h"

namespace lathe::cpu {

LATHE_CLONES void random_words(uint32_t* __restrict__ words, Generator::State start,
                               int64_t counters) {
  for (int64_t c = 0; c < counters; ++c) {
    const Philox4x32 bits = philox4x32_10(start.seed, start.offset + static_cast<uint64_t>(c), 0);
    for (int lane = 0; lane < 4; ++lane) words[4 * c + lane] = bits.v[lane];
  }
}

namespace {

constexpr int64_t kBlockCounters = 256, kBlocksPerTask = 16;

template <class T, class Make>
LATHE_CLONES void values_of_words(T* __restrict__ out, const uint32_t* __restrict__ words,
                                  int64_t counters, Make make) {
  constexpr int kValues = Make::kValues;
  for (int64_t c = 0; c < counters; ++c) {
    T values[kValues];
    make({{words[4 * c], words[4 * c + 1], words[4 * c + 2], words[4 * c + 3]}}, values);
    for (int v = 0; v < kValues; ++v) out[kValues * c + v] = values[v];
  }
}

/// Stores the values that `make` gives for every counter, in row-major order of `out`.
template <class T, class Make>
void fill_dense(T* out, int64_t n, Generator::State start, Make make) {
  constexpr int64_t kValues = Make::kValues;
  const int64_t blocks = ceil_div(n, kValues * kBlockCounters);
  parallel_for(blocks, kBlocksPerTask, [&](int64_t begin, int64_t end) {
    uint32_t words[4 * kBlockCounters];
    for (int64_t b = begin; b < end; ++b) {
      const int64_t first = b * kBlockCounters;  // of the counters
      const int64_t left = n - kValues * first, whole = std::min(left / kValues, kBlockCounters);
      const int64_t counters = std::min(ceil_div(left, kValues), kBlockCounters);
      random_words(words, {start.seed, start.offset + static_cast<uint64_t>(first)}, counters);
      T* const to = out + kValues * first;
      values_of_words(to, words, whole, make);
      if (whole < counters) {  // the end takes some of a counter's values
        T last[kValues];
        values_of_words(last, words + 4 * whole, 1, make);
        std::copy_n(last, left - kValues * whole, to + kValues * whole);
      }
    }
  });
}

/// The same for any strides: through a dense copy.
template <class T, class Make>
void fill(const Tensor& out, Generator::State start, Make make) {
  if (out.numel() == 0) return;
  const bool dense = out.is_contiguous();
  const Tensor target = dense ? out : empty(out.shape(), {.dtype = out.dtype()});
  fill_dense(target.data<T>(), out.numel(), start, make);
  if (!dense) copy_values(out, target);
}

}  // namespace

void fill_random(const Tensor& out, const RandomDraw& draw, Generator::State start) {
  math::visit_random(draw, out.dtype(),
                     [&]<class T>(TypeTag<T>, auto make) { fill<T>(out, start, make); });
}

}  // namespace lathe::cpu
