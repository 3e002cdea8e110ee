// CPU kernels of cumsum and cumprod. Each line is folded in order; the threads divide the lines.
// Contracts: cumsum.h, cumprod.h.
#include <algorithm>

#include "lathe/core/ceil_div.h"
#include "lathe/core/strided_loop.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/cumprod.h"
#include "lathe/ops/cumsum.h"
#include "lathe/ops/reduce_kernels/cumsum_math.h"

namespace lathe {

namespace {

constexpr int64_t kColumns = 64;  // adjacent lines that are folded together
constexpr int64_t kRows = 4;      // dense lines that are folded side by side

struct RunningSum {
  static constexpr int kStart = 0;
  template <class A>
  static A fold(A a, A b) {
    return a + b;
  }
};
struct RunningProduct {
  static constexpr int kStart = 1;
  template <class A>
  static A fold(A a, A b) {
    return a * b;
  }
};

/// y = the running results of kCount dense lines of n elements, one after another in memory. Side
/// by side, because each step of a line waits for the one before.
template <class Op, int64_t kCount, class A, class Out, class T>
void fold_rows(Out* y, const T* x, int64_t n, bool reverse) {
  A total[kCount];
  std::fill_n(total, kCount, A(Op::kStart));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = reverse ? n - 1 - i : i;
    for (int64_t r = 0; r < kCount; ++r) {
      total[r] = Op::fold(total[r], static_cast<A>(x[r * n + at]));
      y[r * n + at] = static_cast<Out>(total[r]);
    }
  }
}

/// The same of `width` adjacent lines that are `inner` apart.
template <class Op, class A, class Out, class T>
void fold_columns(Out* y, const T* x, int64_t n, int64_t inner, int64_t width, bool reverse) {
  A total[kColumns];
  std::fill_n(total, kColumns, A(Op::kStart));
  for (int64_t i = 0; i < n; ++i) {
    const int64_t at = (reverse ? n - 1 - i : i) * inner;
    for (int64_t c = 0; c < width; ++c) {
      total[c] = Op::fold(total[c], static_cast<A>(x[at + c]));
      y[at + c] = static_cast<Out>(total[c]);
    }
  }
}

template <class Op, class Out, class T>
void run(Out* y, const T* x, int64_t outer, int64_t n, int64_t inner, bool reverse) {
  using A = math::RunningSum<Out>;
  const int64_t tiles = ceil_div(inner, kColumns);
  const int64_t grain = std::max<int64_t>(1, kParallelGrain / (n * std::min(inner, kColumns)));
  parallel_for(outer * tiles, grain, [&](int64_t begin, int64_t end) {
    int64_t item = begin;
    if (inner == 1) {
      for (; item + kRows <= end; item += kRows) {
        fold_rows<Op, kRows, A>(y + item * n, x + item * n, n, reverse);
      }
      for (; item < end; ++item) fold_rows<Op, 1, A>(y + item * n, x + item * n, n, reverse);
    }
    for (; item < end; ++item) {
      const int64_t first = item % tiles * kColumns, at = item / tiles * n * inner + first;
      fold_columns<Op, A>(y + at, x + at, n, inner, std::min(kColumns, inner - first), reverse);
    }
  });
}

template <class Op>
void run(const Tensor& y, const Tensor& x, int64_t n, int64_t inner, bool reverse) {
  if (x.numel() == 0) return;
  const int64_t outer = x.numel() / (n * inner);
  visit_all(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    using Out = std::conditional_t<std::is_integral_v<T>, int64_t, T>;
    run<Op>(y.data<Out>(), x.data<T>(), outer, n, inner, reverse);
  });
}

}  // namespace

void cpu::cumsum(const Tensor& y, const Tensor& x, int64_t n, int64_t inner, bool reverse) {
  run<RunningSum>(y, x, n, inner, reverse);
}

void cpu::cumprod(const Tensor& y, const Tensor& x, int64_t n, int64_t inner) {
  run<RunningProduct>(y, x, n, inner, false);
}

}  // namespace lathe
