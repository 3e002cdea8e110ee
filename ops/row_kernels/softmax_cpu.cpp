// CPU kernels of softmax and log_softmax. All work is on lines of the compute type: half types are
// widened into scratch memory, and lines that are not adjacent in memory are gathered. Contracts:
// softmax.h.
#include <algorithm>
#include <cmath>
#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/strided_loop.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/ops/exp_math.h"
#include "lathe/ops/reduce_kernels/reduce_fold_cpu.h"
#include "lathe/ops/row_kernels/softmax_math.h"
#include "lathe/ops/softmax.h"

namespace lathe {

namespace {

constexpr int64_t kTogether = 16;

using reduce_fold::fold_lanes;
using reduce_math::Max;
using reduce_math::Sum;

template <class A>
LATHE_CLONES void log_row(A* __restrict__ y, const A* __restrict__ x, A m, A log_sum, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = math::log_softmax(x[i], m, log_sum);
}
template <class A>
LATHE_CLONES void scale_row(A* y, A scale, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] *= scale;
}

template <class A>
void forward_line(bool log, A* __restrict__ y, const A* __restrict__ x, int64_t n) {
  const A m = fold_lanes<Max<A>>(x, n);
  const A sum = reduce_fold::exp_row(y, x, A(1), m, n);
  if (log) {
    log_row(y, x, m, std::log(sum), n);
  } else {
    scale_row(y, A(1) / sum, n);
  }
}

template <class A>
LATHE_CLONES void backward_line(bool log, A* __restrict__ dx, const A* __restrict__ y,
                                const A* __restrict__ dy, int64_t n) {
  if (log) {
    const A sum = fold_lanes<Sum<A>>(dy, n);
    for (int64_t i = 0; i < n; ++i)
      dx[i] = math::log_softmax_grad(math::fast_exp(y[i]), dy[i], sum);
  } else {
    for (int64_t i = 0; i < n; ++i) dx[i] = dy[i] * y[i];
    const A sum = fold_lanes<Sum<A>>(dx, n);
    for (int64_t i = 0; i < n; ++i) dx[i] = math::softmax_grad(y[i], dy[i], sum);
  }
}

/// Calls line(out, in) for each line of [outer, n, inner], in compute type and adjacent in memory.
/// Lines that are so already are used where they are. Others are gathered, up to kTogether
/// neighbours at a time, so that every cache line is read once.
template <class T, int kInputs, class Line>
void for_lines(T* out, const T* const (&in)[kInputs], int64_t outer, int64_t n, int64_t inner,
               Line line) {
  using A = ComputeType<T>;
  const int64_t together = std::min(inner, kTogether), tiles = ceil_div(inner, together);
  const int64_t grain = std::max<int64_t>(1, kParallelGrain / 4 / (n * together));
  parallel_for(outer * tiles, grain, [&](int64_t begin, int64_t end) {
    if constexpr (std::is_same_v<A, T>) {
      if (inner == 1) {
        for (int64_t l = begin; l < end; ++l) {
          const A* x[kInputs];
          for (int k = 0; k < kInputs; ++k) x[k] = in[k] + l * n;
          line(out + l * n, x);
        }
        return;
      }
    }
    std::vector<A> scratch(static_cast<size_t>(n * together * (kInputs + 1)));
    for (int64_t item = begin; item < end; ++item) {
      const int64_t first = item % tiles * together, width = std::min(together, inner - first);
      const int64_t start = item / tiles * n * inner + first;
      A* gathered[kInputs + 1];
      for (int k = 0; k <= kInputs; ++k) gathered[k] = scratch.data() + k * n * together;
      for (int k = 0; k < kInputs; ++k) {
        for (int64_t i = 0; i < n; ++i) {
          const T* row = in[k] + start + i * inner;
          for (int64_t c = 0; c < width; ++c) gathered[k + 1][c * n + i] = static_cast<A>(row[c]);
        }
      }
      for (int64_t c = 0; c < width; ++c) {
        const A* x[kInputs];
        for (int k = 0; k < kInputs; ++k) x[k] = gathered[k + 1] + c * n;
        line(gathered[0] + c * n, x);
      }
      for (int64_t i = 0; i < n; ++i) {
        T* row = out + start + i * inner;
        for (int64_t c = 0; c < width; ++c) row[c] = static_cast<T>(gathered[0][c * n + i]);
      }
    }
  });
}

}  // namespace

void cpu::softmax_forward(bool log, const Tensor& y, const Tensor& x, int64_t n, int64_t inner) {
  if (x.numel() == 0) return;
  visit_float(x.dtype(), "softmax", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = ComputeType<T>;
    const T* const in[] = {x.data<T>()};
    for_lines<T>(y.data<T>(), in, x.numel() / (n * inner), n, inner,
                 [&](A* out, const A* const* line) { forward_line<A>(log, out, line[0], n); });
  });
}

void cpu::softmax_backward(bool log, const Tensor& dx, const Tensor& y, const Tensor& dy, int64_t n,
                           int64_t inner) {
  if (y.numel() == 0) return;
  visit_float(y.dtype(), "softmax", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = ComputeType<T>;
    const T* const in[] = {y.data<T>(), dy.data<T>()};
    for_lines<T>(
        dx.data<T>(), in, y.numel() / (n * inner), n, inner,
        [&](A* out, const A* const* line) { backward_line<A>(log, out, line[0], line[1], n); });
  });
}

}  // namespace lathe
