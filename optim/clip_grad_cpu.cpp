// Gradient clipping on the CPU; see clip_grad.h.
#include <algorithm>
#include <vector>

#include "lathe/core/copy.h"
#include "lathe/core/strided_loop.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/optim/clip_grad.h"
#include "lathe/optim/clip_math.h"

namespace lathe::optim::cpu {

namespace {

/// The sum of squares, in eight interleaved sums so that the additions need not wait for each
/// other.
template <class T>
double sum_of_squares(const T* x, int64_t n) {
  double lanes[8] = {};
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    for (int k = 0; k < 8; ++k) {
      const double a = static_cast<double>(ComputeType<T>(x[i + k]));
      lanes[k] += a * a;
    }
  }
  for (int k = 0; i < n; ++i, ++k) {
    const double a = static_cast<double>(ComputeType<T>(x[i]));
    lanes[k] += a * a;
  }
  return ((lanes[0] + lanes[1]) + (lanes[2] + lanes[3])) +
         ((lanes[4] + lanes[5]) + (lanes[6] + lanes[7]));
}

/// The p-norm of one gradient: partial sums of fixed chunks, added in order, so that it does not
/// depend on the threads.
double norm_of(const Tensor& grad, double p) {
  Tensor dense = grad;
  if (!grad.is_contiguous()) {
    dense = empty(grad.shape(), {.dtype = grad.dtype()});
    copy_values(dense, grad);
  }
  const int64_t n = dense.numel();
  std::vector<NormSum> parts(static_cast<size_t>((n + kParallelGrain - 1) / kParallelGrain), {p});
  visit_float(dense.dtype(), "clip_grad_norm_", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* x = dense.data<T>();
    parallel_for(n, kParallelGrain, [&](int64_t begin, int64_t end) {
      NormSum part{p};
      if (p == 2) {
        part.sum = sum_of_squares(x + begin, end - begin);
      } else {
        for (int64_t i = begin; i < end; ++i) part.add(static_cast<double>(ComputeType<T>(x[i])));
      }
      parts[static_cast<size_t>(begin / kParallelGrain)] = part;
    });
  });
  NormSum total{p};
  for (const NormSum& part : parts) total.join(part);
  return total.root();
}

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
  for (const Tensor& g : grads) total.add(norm_of(g, norm));
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
