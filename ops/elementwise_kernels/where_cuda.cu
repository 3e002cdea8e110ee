// CUDA kernel of ops/where.h: core/gpu/pointwise.cuh; values are moved, not computed.
#include "lathe/core/gpu/pointwise.cuh"
#include "lathe/ops/where.h"

namespace lathe::cuda {

namespace {

struct Choose {
  template <class T>
  LATHE_HD T operator()(bool cond, T a, T b) const {
    return cond ? a : b;
  }
};

}  // namespace

void where(const Tensor& out, const Tensor& cond, const Tensor& a, const Tensor& b) {
  visit_all(out.dtype(), [&](auto tag) {
    using T = typename decltype(tag)::type;
    pointwise<T>(out, Choose{}, Input<bool>{cond}, Input<T>{a}, Input<T>{b});
  });
}

}  // namespace lathe::cuda
