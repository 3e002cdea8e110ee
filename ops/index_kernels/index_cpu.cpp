// CPU kernels of ops/index.h. Threads divide what no two indices can both refer to (the columns of
// slices, or the lines along dim). Each goes through the index in order, so sums do not depend on
// the number of threads. Contracts: ops/index.h, ops/index_kernels.h.
#include "lathe/ops/index_kernels.h"

#include <algorithm>
#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/copy.h"
#include "lathe/core/loop_nest.h"
#include "lathe/core/row_kernel.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/ops/index.h"
#include "lathe/ops/index_kernels/index_lines_cpu.h"

namespace lathe::cpu {

namespace {

constexpr int64_t kColumns = 256;  // of a slice: those that one task adds up
constexpr int64_t kGrouped = 512;  // the fewest bytes of a slice for which grouping pays

/// True if all n values are in [0, size).
LATHE_CLONES bool all_inside(const int64_t* values, int64_t n, int64_t size) {
  const auto last = static_cast<uint64_t>(size) - 1;
  uint64_t signs = 0;  // of each value and of its distance to the last one allowed
  for (int64_t i = 0; i < n; ++i) {
    const auto value = static_cast<uint64_t>(values[i]);
    signs |= value | (last - value);
  }
  return static_cast<int64_t>(signs) >= 0;
}

/// y[i] += base[i].
template <class T>
LATHE_CLONES void add_base(T* __restrict__ y, const T* __restrict__ base, int64_t n) {
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<T>(base[i] + y[i]);
}

/// y = base, or 0, + the sum of the slices order[0], order[1], … of x, which are `stride` apart; of
/// each, `width` numbers.
template <class T>
[[gnu::always_inline]] inline void add_slices(T* __restrict__ y, const T* __restrict__ base,
                                              const T* __restrict__ x,
                                              const int64_t* __restrict__ order, int64_t count,
                                              int64_t stride, int64_t width) {
  T sums[kColumns];
  for (int64_t c = 0; c < width; ++c) sums[c] = T(0);
  for (int64_t k = 0; k < count; ++k) {
    const T* from = x + order[k] * stride;
    for (int64_t c = 0; c < width; ++c) sums[c] = static_cast<T>(sums[c] + from[c]);
  }
  if (base == nullptr) {
    for (int64_t c = 0; c < width; ++c) y[c] = sums[c];
  } else {
    for (int64_t c = 0; c < width; ++c) y[c] = static_cast<T>(base[c] + sums[c]);
  }
}
template <class T>
LATHE_CLONES void add_whole_slices(T* y, const T* base, const T* x, const int64_t* order,
                                   int64_t count, int64_t stride) {
  add_slices(y, base, x, order, count, stride, kColumns);  // with a width that the compiler knows
}
template <class T>
LATHE_CLONES void add_parts(T* y, const T* base, const T* x, const int64_t* order, int64_t count,
                            int64_t stride, int64_t width) {
  add_slices(y, base, x, order, count, stride, width);
}

/// Which slices have which index: those with index r are order[first[r]] to order[first[r + 1]],
/// in their order.
struct Groups {
  Groups(const int64_t* index, int64_t count, int64_t n)
      : first(static_cast<size_t>(n + 2)), order(static_cast<size_t>(count)) {
    for (int64_t k = 0; k < count; ++k) ++first[static_cast<size_t>(index[k] + 2)];
    for (size_t r = 2; r < first.size(); ++r) first[r] += first[r - 1];
    for (int64_t k = 0; k < count; ++k) {
      order[static_cast<size_t>(first[static_cast<size_t>(index[k] + 1)]++)] = k;
    }
  }
  std::vector<int64_t> first, order;
};

}  // namespace

bool all_inside(const Tensor& index, int64_t size) {
  return index.is_contiguous() && all_inside(index.data<int64_t>(), index.numel(), size);
}

void check_index(const char* op, const Tensor& index, int64_t size) {
  if (all_inside(index, size)) return;
  const int64_t* values = index.data<int64_t>();
  const bool dense = index.is_contiguous();
  const Shape& shape = index.shape();
  for (int64_t i = 0; i < index.numel(); ++i) {
    int64_t offset = i;
    if (!dense) {
      offset = 0;
      int64_t rest = i;
      for (int d = shape.size() - 1; d >= 0; --d) {
        offset += rest % shape[d] * index.strides()[d];
        rest /= shape[d];
      }
    }
    if (values[offset] >= 0 && values[offset] < size) [[likely]]
      continue;
    Dims place = shape;
    int64_t rest = i;
    for (int d = shape.size() - 1; d >= 0; --d) {
      place[d] = rest % shape[d];
      rest /= shape[d];
    }
    LATHE_FAIL(IndexError, op, ": index ", values[offset], " at ", place, " is outside [0, ", size,
               ") (index: ", index, ")");
  }
}

void index_select(const Tensor& y, const Tensor& x, const Tensor& index) {
  const int64_t count = index.numel(), n = x.dim(1), inner = x.dim(2);
  const int64_t* at = index.data<int64_t>();
  visit_all(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    parallel_for(y.dim(0) * count, tasks_of(inner), [&](int64_t begin, int64_t end) {
      int64_t outer = begin / count, k = begin % count;
      for (int64_t i = begin; i < end; ++outer, k = 0) {
        const T* from = x.data<T>() + outer * n * inner;
        T* to = y.data<T>() + i * inner;
        const int64_t stop = std::min(count, k + end - i);
        i += stop - k;
        if (inner == 1) {
          for (; k < stop; ++k) *to++ = from[at[k]];
        } else {
          for (; k < stop; ++k, to += inner) std::copy_n(from + at[k] * inner, inner, to);
        }
      }
    });
  });
}

void index_write(const Tensor& y, const Tensor& index, const Tensor& source) {
  if (source.numel() == 0) return;
  Shape shape = y.shape();
  Strides steps = y.strides(), source_steps = source.strides();
  const int64_t row = steps[0], source_row = source_steps[0];
  shape.erase(0);
  steps.erase(0);
  source_steps.erase(0);
  const auto bytes = static_cast<int64_t>(size_of(y.dtype()));
  const StridedOperand operands[] = {{nullptr, bytes, steps}, {nullptr, bytes, source_steps}};
  const LoopNest nest = make_nest(shape, operands, 2, LoopOrder::kDensestInside);
  const int64_t* at = index.data<int64_t>();
  if (nest.numel() == 1) {
    visit_all(y.dtype(), [&](auto tag) {
      using T = typename decltype(tag)::type;
      T* to = y.data<T>();
      const T* from = source.data<T>();
      for (int64_t k = 0; k < index.numel(); ++k) to[at[k] * row] = from[k * source_row];
    });
    return;
  }
  const RowKernel copy = copy_kernel(y.dtype(), y.dtype());
  const int64_t* step = nest.dims[0].step;
  parallel_for(nest.numel(), tasks_of(index.numel()), [&](int64_t begin, int64_t end) {
    for (int64_t k = 0; k < index.numel(); ++k) {
      char* to = static_cast<char*>(y.raw_data()) + at[k] * row * bytes;
      char* from = static_cast<char*>(source.raw_data()) + k * source_row * bytes;
      each_row<2>(nest, begin, end, [&](const int64_t* offset, int64_t first, int64_t size) {
        char* const data[] = {to + offset[0] + first * step[0], from + offset[1] + first * step[1]};
        copy({data, step, size});
      });
    }
  });
}

void index_sum(const Tensor& y, const Tensor& x, const Tensor& index) {
  index_sum(y, x, index, Tensor());
}
void index_sum(const Tensor& y, const Tensor& x, const Tensor& index, const Tensor& base) {
  const int64_t count = index.numel(), n = y.dim(1), inner = y.dim(2);
  const int64_t* at = index.data<int64_t>();
  if (y.numel() == 0) return;
  visit_number(y.dtype(), "index_add", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const added = base.defined() ? base.data<T>() : nullptr;
    if (inner * static_cast<int64_t>(sizeof(T)) < kGrouped) {
      parallel_for(y.dim(0), tasks_of((n + count) * inner), [&](int64_t begin, int64_t end) {
        for (int64_t outer = begin; outer < end; ++outer) {
          T* to = y.data<T>() + outer * n * inner;
          const T* from = x.data<T>() + outer * count * inner;
          std::fill_n(to, n * inner, T(0));
          if (inner == 1) {
            for (int64_t k = 0; k < count; ++k) to[at[k]] = static_cast<T>(to[at[k]] + from[k]);
          } else {
            const int64_t width = inner;  // a copy: stores of u8 could change what is captured
            for (int64_t k = 0; k < count; ++k, from += width) {
              T* sum = to + at[k] * width;
              for (int64_t c = 0; c < width; ++c) sum[c] = static_cast<T>(sum[c] + from[c]);
            }
          }
          if (added != nullptr) add_base(to, added + outer * n * inner, n * inner);
        }
      });
      return;
    }
    const Groups groups(at, count, n);
    const int64_t parts = ceil_div(inner, kColumns);
    const int64_t work = std::min(inner, kColumns) * (1 + count / n);
    parallel_for(y.dim(0) * n * parts, tasks_of(work), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i / parts, outer = row / n, column = i % parts * kColumns;
        const int64_t width = std::min(kColumns, inner - column);
        const int64_t* const first = groups.first.data() + row % n;
        const int64_t offset = row * inner + column, slices = first[1] - first[0];
        T* const to = y.data<T>() + offset;
        const T* const from = x.data<T>() + outer * count * inner + column;
        const T* const onto = added == nullptr ? nullptr : added + offset;
        const int64_t* const order = groups.order.data() + first[0];
        if (width == kColumns) {
          add_whole_slices(to, onto, from, order, slices, inner);
        } else {
          add_parts(to, onto, from, order, slices, inner, width);
        }
      }
    });
  });
}

void gather(const Tensor& y, const Tensor& x, int dim, const Tensor& index) {
  const int64_t length = index.shape()[dim];
  const int64_t si = index.strides()[dim], sx = x.strides()[dim], sy = y.strides()[dim];
  visit_all(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    each_line(index, dim, x, y, [&](int64_t i0, int64_t x0, int64_t y0) {
      const int64_t* at = index.data<int64_t>() + i0;
      const T* from = x.data<T>() + x0;
      T* to = y.data<T>() + y0;
      if (si == 1 && sx == 1 && sy == 1) {
        for (int64_t k = 0; k < length; ++k) to[k] = from[at[k]];
      } else {
        for (int64_t k = 0; k < length; ++k) to[k * sy] = from[at[k * si] * sx];
      }
    });
  });
}

void scatter_write(const Tensor& y, const Tensor& x, int dim, const Tensor& index) {
  scatter_write(y, x, dim, index, Tensor());
}
void scatter_write(const Tensor& y, const Tensor& x, int dim, const Tensor& index,
                   const Tensor& base) {
  const int64_t length = index.shape()[dim], n = y.shape()[dim];
  const int64_t si = index.strides()[dim], sx = x.strides()[dim], sy = y.strides()[dim];
  visit_all(x.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const below = base.defined() ? base.data<T>() : nullptr;
    each_line(index, dim, x, y, [&](int64_t i0, int64_t x0, int64_t y0) {
      const int64_t* at = index.data<int64_t>() + i0;
      const T* from = x.data<T>() + x0;
      T* to = y.data<T>() + y0;
      if (below != nullptr) std::copy_n(below + y0, n, to);  // and it stays in the cache
      for (int64_t k = 0; k < length; ++k) to[at[k * si] * sy] = from[k * sx];
    });
  });
}

bool has_whole_lines(const Tensor& y, int dim, const Tensor& index) {
  bool whole = index.numel() > 0 && dim == y.ndim() - 1 && y.is_contiguous();
  for (int d = 0; whole && d < dim; ++d) whole = index.shape()[d] == y.shape()[d];
  return whole;
}

void scatter_sum(const Tensor& y, const Tensor& x, int dim, const Tensor& index) {
  scatter_sum(y, x, dim, index, Tensor());
}
void scatter_sum(const Tensor& y, const Tensor& x, int dim, const Tensor& index,
                 const Tensor& base) {
  const int64_t length = index.shape()[dim], n = y.shape()[dim];
  const int64_t si = index.strides()[dim], sx = x.strides()[dim], sy = y.strides()[dim];
  const bool whole = has_whole_lines(y, dim, index);  // each stays in the cache
  if (!whole) fill_values(y, 0);
  visit_number(x.dtype(), "scatter_add", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const added = base.defined() ? base.data<T>() : nullptr;
    each_line(index, dim, x, y, [&](int64_t i0, int64_t x0, int64_t y0) {
      const int64_t* at = index.data<int64_t>() + i0;
      const T* from = x.data<T>() + x0;
      T* to = y.data<T>() + y0;
      if (whole) std::fill_n(to, n, T(0));
      for (int64_t k = 0; k < length; ++k) {
        T& sum = to[at[k * si] * sy];
        sum = static_cast<T>(sum + from[k * sx]);
      }
      if (added != nullptr) add_base(to, added + y0, n);
    });
  });
}

}  // namespace lathe::cpu
