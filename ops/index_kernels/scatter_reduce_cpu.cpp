// CPU kernel of ops/scatter_reduce.h. Threads divide the lines along dim, and each goes through its
// lines in order. Contract: ops/scatter_reduce.h.
#include "lathe/ops/scatter_reduce.h"

#include <cmath>
#include <type_traits>

#include "lathe/core/visit.h"
#include "lathe/ops/index_kernels/index_lines_cpu.h"

namespace lathe::cpu {

namespace {

template <class C>
bool is_nan(C x) {
  if constexpr (std::is_floating_point_v<C>) return std::isnan(x);
  return false;
}

// NaN wins: a comparison with it is false, so `a` is tested for it, and a NaN in b wins by itself.
struct Larger {
  template <class C>
  C operator()(C a, C b) const {
    return is_nan(a) || a > b ? a : b;
  }
};
struct Smaller {
  template <class C>
  C operator()(C a, C b) const {
    return is_nan(a) || a < b ? a : b;
  }
};
/// Integers wrap.
struct Times {
  template <class C>
  C operator()(C a, C b) const {
    if constexpr (std::is_floating_point_v<C>)
      return a * b;
    else
      return static_cast<C>(static_cast<uint64_t>(a) * static_cast<uint64_t>(b));
  }
};

template <class T, class F>
void combine_lines(const Tensor& y, const Tensor& x, int dim, const Tensor& index, F f) {
  using C = ComputeType<T>;
  const int64_t length = index.shape()[dim];
  const int64_t si = index.strides()[dim], sx = x.strides()[dim], sy = y.strides()[dim];
  each_line(index, dim, x, y, [&](int64_t i0, int64_t x0, int64_t y0) {
    const int64_t* at = index.data<int64_t>() + i0;
    const T* from = x.data<T>() + x0;
    T* to = y.data<T>() + y0;
    for (int64_t k = 0; k < length; ++k) {
      T& result = to[at[k * si] * sy];
      result = T(f(C(result), C(from[k * sx])));
    }
  });
}

}  // namespace

void scatter_reduce(ScatterReduction reduction, const Tensor& y, const Tensor& x, int dim,
                    const Tensor& index) {
  visit_number(y.dtype(), "scatter_reduce", [&](auto tag) {
    using T = typename decltype(tag)::type;
    switch (reduction) {
      case ScatterReduction::kProd: return combine_lines<T>(y, x, dim, index, Times{});
      case ScatterReduction::kAmax: return combine_lines<T>(y, x, dim, index, Larger{});
      case ScatterReduction::kAmin: return combine_lines<T>(y, x, dim, index, Smaller{});
      case ScatterReduction::kSum:
      case ScatterReduction::kMean: break;  // index.h's scatter_sum
    }
  });
}

}  // namespace lathe::cpu
