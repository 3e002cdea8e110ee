// CPU kernel of max, min, argmax and argmin along a dimension; see argmax.h.
#include <algorithm>
#include <vector>

#include "lathe/core/strided_loop.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/ops/argmax.h"
#include "lathe/ops/reduce_kernels/reduce_fold_cpu.h"

namespace lathe {

namespace {

/// A line of adjacent numbers: the fold of amax finds the extreme, then a search its first position
/// (or that of the first NaN).
template <class Op, class T>
int64_t find_in_row(const T* x, int64_t n, ComputeType<T>* value) {
  using A = ComputeType<T>;
  const auto first = [&](auto wanted) { return std::find_if(x, x + n, wanted) - x; };
  if constexpr (std::is_same_v<A, T>) {
    *value = reduce_fold::fold_lanes<Op>(x, n);
  } else {
    *value = Op::kStart;
    for (int64_t i = 0; i < n; ++i) Op::step(*value, static_cast<A>(x[i]));
  }
  const A v = *value;
  if (v != v) return first([](T e) { return static_cast<A>(e) != static_cast<A>(e); });
  return first([v](T e) { return static_cast<A>(e) == v; });
}

/// Rows of `inner` numbers: the extreme of each column, kept together with its position.
template <class Op, class T>
void find_in_columns(const T* x, int64_t n, int64_t inner, ComputeType<T>* value, int64_t* at) {
  using A = ComputeType<T>;
  for (int64_t c = 0; c < inner; ++c) {
    value[c] = static_cast<A>(x[c]);
    at[c] = 0;
  }
  for (int64_t r = 1; r < n; ++r) {
    const T* row = x + r * inner;
    for (int64_t c = 0; c < inner; ++c) {
      A v = value[c];
      Op::step(v, static_cast<A>(row[c]));
      const bool was_nan = value[c] != value[c], is_new = v != value[c];
      if (is_new && !was_nan) {
        value[c] = v;
        at[c] = r;
      }
    }
  }
}

template <class Op, class T>
void find_extremes(const Tensor& values, const Tensor& indices, const Tensor& x, int64_t n,
                   int64_t inner) {
  using A = ComputeType<T>;
  T* out = values.defined() ? static_cast<T*>(values.raw_data()) : nullptr;
  int64_t* at = indices.data<int64_t>();
  const T* in = static_cast<const T*>(x.raw_data());
  const int64_t outer = indices.numel() / inner;
  const int64_t grain = std::max<int64_t>(1, kParallelGrain / (n * inner));
  parallel_for(outer, grain, [&](int64_t begin, int64_t end) {
    std::vector<A> value(static_cast<size_t>(inner));
    for (int64_t o = begin; o < end; ++o) {
      if (inner == 1) {
        at[o] = find_in_row<Op, T>(in + o * n, n, value.data());
      } else {
        find_in_columns<Op, T>(in + o * n * inner, n, inner, value.data(), at + o * inner);
      }
      if (out == nullptr) continue;
      for (int64_t c = 0; c < inner; ++c)
        out[o * inner + c] = static_cast<T>(value[static_cast<size_t>(c)]);
    }
  });
}

}  // namespace

void cpu::extreme(bool largest, const Tensor& values, const Tensor& indices, const Tensor& x,
                  int64_t n, int64_t inner) {
  if (indices.numel() == 0) return;
  const DType dtype = x.dtype() == kBool ? kU8 : x.dtype();  // false and true are 0 and 1
  visit_number(dtype, "max", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = ComputeType<T>;
    if (largest) {
      find_extremes<reduce_math::Max<A>, T>(values, indices, x, n, inner);
    } else {
      find_extremes<reduce_math::Min<A>, T>(values, indices, x, n, inner);
    }
  });
}

}  // namespace lathe
