// CPU kernels of ops/random.h: a functor of random_math.h turns one Philox counter after another
// into a few values. Contract: ops/random.h.
#include "lathe/core/ceil_div.h"
#include "lathe/core/copy.h"
#include "lathe/core/random/philox.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/random_kernels/random_math.h"

namespace lathe::cpu {

namespace {

constexpr int64_t kCountersPerTask = 4096;

/// Stores the values that `make` gives for every counter, in row-major order of `out`.
template <class T, class Make>
void fill_dense(T* out, int64_t n, Generator::State start, Make make) {
  constexpr int64_t kValues = Make::kValues;
  parallel_for(ceil_div(n, kValues), kCountersPerTask, [&](int64_t begin, int64_t end) {
    for (int64_t c = begin; c < end; ++c) {
      T values[kValues];
      make(philox4x32_10(start.seed, start.offset + static_cast<uint64_t>(c), 0), values);
      for (int64_t lane = 0; lane < kValues && kValues * c + lane < n; ++lane) {
        out[kValues * c + lane] = values[lane];
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
