// Unscaling and the scale's update on the CPU; see optim/grad_scaler.h.
#include <atomic>

#include "lathe/core/strided_loop.h"
#include "lathe/core/visit.h"
#include "lathe/optim/grad_scaler.h"

namespace lathe::optim::cpu {

namespace {

/// n dense elements, unscaled. → whether all were finite.
template <class T, class C = ComputeType<T>>
LATHE_CLONES bool unscale_row(T* x, int64_t n, Unscale<C> unscale) {
  int bad = 0;
  for (int64_t i = 0; i < n; ++i) {
    const C scaled = C(x[i]);
    bad |= is_finite(scaled) ? 0 : 1;
    x[i] = T(unscale(scaled));
  }
  return bad == 0;
}

}  // namespace

void unscale_grads(const Tensors& grads, const Tensor& scale, const Tensor& found_inf) {
  const float factor = scale.item<float>();
  std::atomic<bool> finite{true};
  for (const Tensor& grad : grads) {
    visit_float(grad.dtype(), "GradScaler", [&](auto tag) {
      using T = typename decltype(tag)::type;
      const auto unscale = Unscale<ComputeType<T>>::by(factor);
      strided_loop(grad, [&](const StridedRow& row) {
        bool all = true;
        if (row.dense<T>(0)) {
          all = unscale_row(row.at<T>(0), row.size, unscale);
        } else {
          char* at = row.data[0];
          for (int64_t i = 0; i < row.size; ++i, at += row.step[0]) {
            all = unscale_row(reinterpret_cast<T*>(at), 1, unscale) && all;
          }
        }
        if (!all) finite.store(false, std::memory_order_relaxed);
      });
    });
  }
  if (!finite.load()) *found_inf.data<float>() = 1;
}

void update_loss_scale(const Tensor& scale, const Tensor& growth_tracker, const Tensor& counts,
                       const Tensor& report, const Tensor& found_inf, const LossScaleRule& rule) {
  auto& all = *static_cast<LossScaleCounts*>(counts.raw_data());
  rule.update(*found_inf.data<float>() != 0, *scale.data<float>(), *growth_tracker.data<int64_t>(),
              all);
  if (!report.defined()) return;
  *static_cast<LossScaleReport*>(report.raw_data()) = {.scale = *scale.data<float>(),
                                                       .counts = all};
}

}  // namespace lathe::optim::cpu
