// Gradient clipping on the CPU; see optim/clip_grad.h.

#include "lathe/core/copy.h"
#include "lathe/core/strided_loop.h"
#include "lathe/core/visit.h"
#include "lathe/optim/check_grads.h"
#include "lathe/optim/clip_grad.h"
#include "lathe/optim/kernels/clip_math.h"

namespace lathe::optim::cpu {

namespace {

/// x = f(x) for every element, in any layout.
template <class F>
void map_in_place(const Tensor& x, F&& f) {
  visit_float(x.dtype(), "clip_grad", [&](auto tag) {
    using T = typename decltype(tag)::type;
    strided_loop(x, [&](const StridedRow& row) {
      if (row.dense<T>(0)) {
        T* values = row.at<T>(0);
        for (int64_t i = 0; i < row.size; ++i) values[i] = T(f(ComputeType<T>(values[i])));
        return;
      }
      char* at = row.data[0];
      for (int64_t i = 0; i < row.size; ++i, at += row.step[0]) {
        T& value = *reinterpret_cast<T*>(at);
        value = T(f(ComputeType<T>(value)));
      }
    });
  });
}

}  // namespace

Tensor grad_norm(const Tensors& grads, double norm, DType dtype) {
  NormSum total{norm};
  for (const Tensor& g : grads) total.add(norm_of(g, norm, 1, nullptr));
  Tensor out = empty({}, {.dtype = dtype});
  fill_values(out, total.root());
  return out;
}

void scale_grads(const Tensors& grads, const Tensor& total, double max_norm) {
  const double factor = clip_factor(total.item<double>(), max_norm);
  if (factor == 1) return;  // x * 1 is x, whatever x is
  for (const Tensor& g : grads) {
    map_in_place(g, [factor]<class C>(C x) { return Scale<C>{C(factor)}(x); });
  }
}

void clamp_grads(const Tensors& grads, double limit) {
  for (const Tensor& g : grads) {
    map_in_place(g, [limit]<class C>(C x) { return Clamp<C>{C(limit)}(x); });
  }
}

}  // namespace lathe::optim::cpu
