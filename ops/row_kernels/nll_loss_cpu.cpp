// CPU kernels of nll_loss: one target at a time. Contract: ops/losses/nll_loss.h.
#include "lathe/core/copy.h"
#include "lathe/core/visit.h"
#include "lathe/ops/losses/nll_loss.h"

namespace lathe {

namespace {

/// Calls f(row, offset of the target's score, its weight) for every target that is not ignored.
template <class A, class F>
void for_targets(const ClassTargets& t, F f) {
  const int64_t* index = t.index.data<int64_t>();
  const A* weight = t.weight.defined() ? t.weight.data<A>() : nullptr;
  for (int64_t i = 0; i < t.rows(); ++i) {
    if (index[i] == t.ignore_index) continue;
    const int64_t place = (i / t.inner * t.classes + index[i]) * t.inner + i % t.inner;
    f(i, place, weight == nullptr ? A(1) : weight[index[i]]);
  }
}

}  // namespace

void cpu::nll_loss_forward(const Tensor& loss, const Tensor& weight, const Tensor& logp,
                           const ClassTargets& targets) {
  fill_values(loss, 0);
  fill_values(weight, 0);
  if (targets.rows() == 0) return;
  visit_float(logp.dtype(), "nll_loss", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = ComputeType<T>;
    A *l = loss.data<A>(), *w = weight.data<A>();
    const T* p = logp.data<T>();
    for_targets<A>(targets, [=](int64_t i, int64_t place, A class_weight) {
      l[i] = -class_weight * static_cast<A>(p[place]);
      w[i] = class_weight;
    });
  });
}

void cpu::nll_loss_backward(const Tensor& dlogp, const Tensor& g, const ClassTargets& targets) {
  fill_values(dlogp, 0);
  if (targets.rows() == 0) return;
  visit_float(dlogp.dtype(), "nll_loss", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using A = ComputeType<T>;
    T* d = dlogp.data<T>();
    const A* dloss = g.data<A>();
    for_targets<A>(targets, [=](int64_t i, int64_t place, A class_weight) {
      d[place] = static_cast<T>(-class_weight * dloss[i]);
    });
  });
}

}  // namespace lathe
