// CPU kernel of pad with borders of x's own elements: a row gets its borders while it is in the
// cache. Contract: ops/index_kernels.h.
#include "lathe/ops/index_kernels.h"

#include <algorithm>
#include <cstring>

#include "lathe/core/loop_nest.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/ops/index_kernels/index_lines_cpu.h"

namespace lathe::cpu {

bool has_dense_rows(const Tensor& part, const Tensor& x) {
  return x.ndim() > 0 && x.numel() > 0 && part.stride(-1) == 1 && x.stride(-1) == 1;
}

namespace {

template <class T>
void pad_row(T* to, const T* from, int64_t n, int64_t before, int64_t after, PadMode mode) {
  std::memcpy(to, from, sizeof(T) * static_cast<size_t>(n));
  T *const front = to - before, *const back = to + n;
  switch (mode) {
    case PadMode::kReflect:
      for (int64_t i = 0; i < before; ++i) front[i] = from[before - i];
      for (int64_t i = 0; i < after; ++i) back[i] = from[n - 2 - i];
      return;
    case PadMode::kReplicate:
      std::fill_n(front, before, from[0]);
      std::fill_n(back, after, from[n - 1]);
      return;
    case PadMode::kCircular:
      std::copy_n(from + n - before, before, front);
      std::copy_n(from, after, back);
      return;
  }
}

}  // namespace

void pad_rows(const Tensor& part, const Tensor& x, int64_t before, int64_t after, PadMode mode) {
  const int64_t n = x.dim(-1);
  Shape rows = x.shape();
  rows[x.ndim() - 1] = 1;
  const StridedOperand operands[] = {{nullptr, 1, part.strides()}, {nullptr, 1, x.strides()}};
  const LoopNest nest = make_nest(rows, operands, 2, LoopOrder::kRowMajor);
  visit_all(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    T* const to = part.data<T>();
    const T* const from = x.data<T>();
    parallel_for(nest.numel(), tasks_of(before + n + after), [&](int64_t begin, int64_t end) {
      NestWalk<2> row(nest, begin);
      for (int64_t i = begin; i < end; ++i, row.next()) {
        pad_row(to + row.offset[0], from + row.offset[1], n, before, after, mode);
      }
    });
  });
}

}  // namespace lathe::cpu
