// Norms and overflow of gradients on the CPU; see check_grads.h.
#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/copy.h"
#include "lathe/core/strided_loop.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/optim/check_grads.h"
#include "lathe/optim/kernels/clip_math.h"
#include "lathe/optim/loss_scale_math.h"

namespace lathe::optim::cpu {

namespace {

/// The sum of squares of x * unscale, in eight interleaved sums so that the additions need not wait
/// for each other.
template <class T, class C = ComputeType<T>>
double sum_of_squares(const T* x, int64_t n, C unscale) {
  double lanes[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int k = 0; k < 8; ++k) {
      const double a = static_cast<double>(C(x[i + k]) * unscale);
      lanes[k] += a * a;
    }
  }
  for (int k = 0; i < n; ++i, ++k) {
    const double a = static_cast<double>(C(x[i]) * unscale);
    lanes[k] += a * a;
  }
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

template <class T, class C = ComputeType<T>>
LATHE_CLONES bool all_finite(const T* x, int64_t n) {
  int bad = 0;
  for (int64_t i = 0; i < n; ++i) bad |= is_finite(C(x[i])) ? 0 : 1;
  return bad == 0;
}

}  // namespace

/// The p-norm of one gradient: partial sums of fixed chunks, added in order, so that the result
/// does not depend on the number of threads.
double norm_of(const Tensor& grad, double p, double unscale, bool* finite) {
  Tensor dense = grad;
  if (!grad.is_contiguous()) {
    dense = empty(grad.shape(), {.dtype = grad.dtype()});
    copy_values(dense, grad);
  }
  const int64_t n = dense.numel();
  std::vector<NormSum> parts(static_cast<size_t>(ceil_div(n, kParallelGrain)), {p});
  visit_float(dense.dtype(), "clip_grad_norm_", [&](auto tag) {
    using T = typename decltype(tag)::type;
    using C = ComputeType<T>;
    const T* x = dense.data<T>();
    const C factor = C(unscale);
    if (finite != nullptr) *finite = *finite && all_finite(x, n);
    parallel_for(n, kParallelGrain, [&](int64_t begin, int64_t end) {
      NormSum part{p};
      if (p == 2) {
        part.sum = sum_of_squares(x + begin, end - begin, factor);
      } else {
        for (int64_t i = begin; i < end; ++i) {
          part.add(static_cast<double>(C(x[i]) * factor));
        }
      }
      parts[static_cast<size_t>(begin / kParallelGrain)] = part;
    });
  });
  NormSum total{p};
  for (const NormSum& part : parts) total.join(part);
  return total.root();
}

void check_grads(const GradCheck& check, std::span<UpdateItem>) {
  double* const factors = check.factors.data<double>();
  factors[0] = factors[1] = 1;
  bool finite = true;
  if (check.scale.defined()) {
    factors[0] = Unscale<double>::by(check.scale.item<float>()).factor;
  }
  NormSum total{2};
  for (const Tensor& g : check.grads) total.add(norm_of(g, 2, factors[0], &finite));
  if (check.scale.defined()) *check.found_inf.data<float>() = finite ? 0 : 1;
  if (check.max_norm == 0) return;
  fill_values(check.total, total.root());
  factors[1] = clip_factor(check.total.item<double>(), check.max_norm);
}

}  // namespace lathe::optim::cpu
