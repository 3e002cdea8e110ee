// CUDA kernels of max, min, argmax and argmin along a dimension; see argmax.h. A reduction
// (reduce_kernels.cuh) whose partial results know their place.
#include "lathe/core/visit.h"
#include "lathe/ops/argmax.h"
#include "lathe/ops/reduce_kernels/reduce_device.cuh"

namespace lathe::cuda {

namespace {

template <class A>
struct Extreme {
  A value;
  int64_t at;
};

/// Op: Max or Min of reduce_math.h. NaN is the extreme; of equal ones the first.
template <class Op>
struct ExtremeMath {
  using Value = typename Op::Value;
  using Partial = Extreme<Value>;
  static constexpr Value kFiller = Op::kStart;
  static constexpr bool kCentred = false;
  template <class T>
  __device__ static Value value(T x) {
    return static_cast<Value>(x);
  }
  __device__ static Partial start() { return {Op::kStart, INT64_MAX}; }
  __device__ static Partial fold(const Value (&v)[kFold], int n, int64_t first, int64_t step) {
    Partial best = {v[0], first};
    for (int i = 1; i < kFold; ++i) {
      if (i < n) best = combine(best, {v[i], first + i * step});
    }
    return best;
  }
  __device__ static Partial combine(const Partial& a, const Partial& b) {
    const bool a_is_nan = a.value != a.value;
    const bool equal = a_is_nan ? b.value != b.value : a.value == b.value;
    Value extreme = a.value;
    Op::step(extreme, b.value);
    const bool b_wins = equal ? b.at < a.at : !a_is_nan && extreme != a.value;
    return b_wins ? b : a;
  }
};

template <class T>
struct FloatTarget {
  T* values;  // may be null
  int64_t* indices;
  template <class A>
  __device__ void operator()(int64_t at, const Extreme<A>& found) const {
    if (values != nullptr) values[at] = static_cast<T>(found.value);
    indices[at] = found.at;
  }
};

struct IntegerTarget {
  IntegerArray values;
  bool has_values;
  int64_t* indices;
  __device__ void operator()(int64_t at, const Extreme<int64_t>& found) const {
    if (has_values) values.set(at, found.value);
    indices[at] = found.at;
  }
};

template <template <class> class Op>
void run(const Tensor& values, const Tensor& indices, const Tensor& x, const ReduceNests& nests) {
  if (!is_floating(x.dtype())) {
    const bool has_values = values.defined();
    const IntegerTarget target{IntegerArray(has_values ? values : indices), has_values,
                               indices.data<int64_t>()};
    return launch_reduction<ExtremeMath<Op<int64_t>>>(target, IntegerArray(x), nests, x.device());
  }
  visit_float(x.dtype(), "max", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const FloatTarget<T> target{values.defined() ? values.data<T>() : nullptr,
                                indices.data<int64_t>()};
    launch_reduction<ExtremeMath<Op<ComputeType<T>>>>(target, static_cast<const T*>(x.data<T>()),
                                                      nests, x.device());
  });
}

}  // namespace

void extreme(bool largest, const Tensor& values, const Tensor& indices, const Tensor& x, int64_t n,
             int64_t inner) {
  if (indices.numel() == 0) return;
  const int64_t outer = indices.numel() / inner;
  const Shape lines{outer, n, inner}, results{outer, 1, inner};
  const ReduceNests nests =
      reduce_nests(lines, contiguous_strides(lines), results, contiguous_strides(results));
  if (largest) {
    run<reduce_math::Max>(values, indices, x, nests);
  } else {
    run<reduce_math::Min>(values, indices, x, nests);
  }
}

}  // namespace lathe::cuda
