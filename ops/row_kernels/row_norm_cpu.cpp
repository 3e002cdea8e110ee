// CPU kernels of layer_norm and group_norm. A row is read into the cache once: mean, variance and
// result (or both sums of the gradient and dx) are computed from there. Contract: row_norm.h.
#include <algorithm>
#include <cmath>
#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/copy.h"
#include "lathe/core/strided_loop.h"
#include "lathe/core/thread_pool.h"
#include "lathe/core/visit.h"
#include "lathe/ops/reduce_kernels/reduce_fold_cpu.h"
#include "lathe/ops/row_kernels/row_norm_math.h"
#include "lathe/ops/row_norm.h"

namespace lathe {

namespace {

using reduce_fold::fold_lanes;

/// n numbers in the compute type: used where they are, or widened into `room`.
template <class T>
const ComputeType<T>* widened(const T* from, int64_t n, ComputeType<T>* room) {
  if constexpr (std::is_same_v<T, ComputeType<T>>) {
    return from;
  } else {
    convert(room, from, n);
    return room;
  }
}
template <class T>
void narrowed(T* to, const ComputeType<T>* from, int64_t n) {
  if constexpr (!std::is_same_v<T, ComputeType<T>>) convert(to, from, n);
}

/// y = (x - mean) * rstd * w[c] + b[c], where channel c is `inner` numbers.
template <class A>
LATHE_CLONES void normalise(A* y, const A* x, A mean, A rstd, const A* w, const A* b,
                            int64_t channels, int64_t inner) {
  if (inner == 1 && w != nullptr && b != nullptr) {
    for (int64_t c = 0; c < channels; ++c) {
      y[c] = math::row_norm_affine(math::row_norm_hat(x[c], mean, rstd), w[c], b[c]);
    }
    return;
  }
  if (w == nullptr && b == nullptr) {
    for (int64_t i = 0; i < channels * inner; ++i) {
      y[i] = math::row_norm_affine(math::row_norm_hat(x[i], mean, rstd), A(1), A(0));
    }
    return;
  }
  for (int64_t c = 0; c < channels; ++c) {
    const A scale = w == nullptr ? A(1) : w[c], shift = b == nullptr ? A(0) : b[c];
    for (int64_t i = c * inner; i < (c + 1) * inner; ++i) {
      y[i] = math::row_norm_affine(math::row_norm_hat(x[i], mean, rstd), scale, shift);
    }
  }
}

/// xhat = (x - mean) * rstd and g = dy * w.
template <class A>
LATHE_CLONES void prepare(A* __restrict__ xhat, A* __restrict__ g, const A* __restrict__ x,
                          const A* __restrict__ dy, A mean, A rstd, const A* __restrict__ w,
                          int64_t channels, int64_t inner) {
  for (int64_t i = 0; i < channels * inner; ++i) xhat[i] = math::row_norm_hat(x[i], mean, rstd);
  if (w == nullptr) {
    std::copy(dy, dy + channels * inner, g);
  } else if (inner == 1) {
    for (int64_t c = 0; c < channels; ++c) g[c] = dy[c] * w[c];
  } else {
    for (int64_t c = 0; c < channels; ++c) {
      for (int64_t i = c * inner; i < (c + 1) * inner; ++i) g[i] = dy[i] * w[c];
    }
  }
}

template <class A>
LATHE_CLONES void multiply(A* __restrict__ out, const A* __restrict__ a, const A* __restrict__ b,
                           int64_t n) {
  for (int64_t i = 0; i < n; ++i) out[i] = a[i] * b[i];
}

/// dx = rstd * (g - mean_g - xhat * mean_gx).
template <class A>
LATHE_CLONES void combine(A* __restrict__ dx, const A* __restrict__ g, const A* __restrict__ xhat,
                          A rstd, A mean_g, A mean_gx, int64_t n) {
  for (int64_t i = 0; i < n; ++i) {
    dx[i] = math::row_norm_grad(g[i], xhat[i], rstd, mean_g, mean_gx);
  }
}

/// total[c] += the sum of channel c's numbers.
template <class A>
LATHE_CLONES void add_channels(A* __restrict__ total, const A* __restrict__ values,
                               int64_t channels, int64_t inner) {
  if (inner == 1) {
    for (int64_t c = 0; c < channels; ++c) total[c] += values[c];
    return;
  }
  for (int64_t c = 0; c < channels; ++c) {
    total[c] += fold_lanes<reduce_math::Sum<A>>(values + c * inner, inner);
  }
}

template <class A>
const A* slice_of(const Tensor& per_channel, int64_t group, int64_t channels) {
  return per_channel.defined() ? per_channel.data<A>() + group * channels : nullptr;
}

template <class T>
void forward(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
             const Tensor& weight, const Tensor& bias, const RowNormShape& s, double eps) {
  using A = ComputeType<T>;
  const int64_t n = s.row_size(), grain = std::max<int64_t>(1, kParallelGrain / n);
  constexpr bool kWiden = !std::is_same_v<A, T>;
  parallel_for(s.rows(), grain, [&](int64_t begin, int64_t end) {
    std::vector<A> room(static_cast<size_t>(kWiden ? 2 * n : 0));
    for (int64_t r = begin; r < end; ++r) {
      const A* row = widened(x.data<T>() + r * n, n, room.data());
      const reduce_math::Moments<A> moments = reduce_fold::Variance<A>::fold(row, n);
      const A m = moments.mean, scale = A(1) / std::sqrt(moments.m2 / A(n) + static_cast<A>(eps));
      mean.data<A>()[r] = m;
      rstd.data<A>()[r] = scale;
      T* out = y.data<T>() + r * n;
      A* wide = nullptr;
      if constexpr (kWiden)
        wide = room.data() + n;
      else
        wide = out;
      normalise<A>(wide, row, m, scale, slice_of<A>(weight, r % s.groups, s.channels),
                   slice_of<A>(bias, r % s.groups, s.channels), s.channels, s.inner);
      narrowed(out, wide, n);
    }
  });
}

template <class T>
void backward(const Tensor& dx, const Tensor& dweight, const Tensor& dbias, const Tensor& dy,
              const Tensor& x, const Tensor& mean, const Tensor& rstd, const Tensor& weight,
              const RowNormShape& s) {
  using A = ComputeType<T>;
  using Sum = reduce_math::Sum<A>;
  const int64_t n = s.row_size(), all_channels = s.groups * s.channels;
  const int64_t parts = ceil_div(s.rows(), kRowNormPart);
  const int64_t grain = std::max<int64_t>(1, kParallelGrain / (n * kRowNormPart));
  parallel_for(parts, grain, [&](int64_t begin, int64_t end) {
    std::vector<A> room(static_cast<size_t>(5 * n));
    A *xhat = room.data(), *g = xhat + n, *product = g + n;
    for (int64_t r = begin * kRowNormPart; r < std::min(s.rows(), end * kRowNormPart); ++r) {
      const int64_t part = r / kRowNormPart * all_channels, channel = r % s.groups * s.channels;
      const A* row = widened(x.data<T>() + r * n, n, product + n);
      const A* drow = widened(dy.data<T>() + r * n, n, product + 2 * n);
      const A scale = rstd.data<A>()[r];
      prepare<A>(xhat, g, row, drow, mean.data<A>()[r], scale,
                 slice_of<A>(weight, r % s.groups, s.channels), s.channels, s.inner);
      multiply<A>(product, g, xhat, n);
      const A mean_g = fold_lanes<Sum>(g, n) / A(n), mean_gx = fold_lanes<Sum>(product, n) / A(n);
      if (dbias.defined())
        add_channels<A>(dbias.data<A>() + part + channel, drow, s.channels, s.inner);
      if (dweight.defined()) {
        multiply<A>(product, drow, xhat, n);
        add_channels<A>(dweight.data<A>() + part + channel, product, s.channels, s.inner);
      }
      T* out = dx.data<T>() + r * n;
      if constexpr (std::is_same_v<A, T>) {
        combine<A>(out, g, xhat, scale, mean_g, mean_gx, n);
      } else {
        combine<A>(product, g, xhat, scale, mean_g, mean_gx, n);
        narrowed(out, product, n);
      }
    }
  });
}

}  // namespace

void cpu::row_norm_forward(const Tensor& y, const Tensor& mean, const Tensor& rstd, const Tensor& x,
                           const Tensor& weight, const Tensor& bias, const RowNormShape& shape,
                           double eps) {
  if (x.numel() == 0) return;
  visit_float(x.dtype(), "row_norm", [&](auto tag) {
    forward<typename decltype(tag)::type>(y, mean, rstd, x, weight, bias, shape, eps);
  });
}

void cpu::row_norm_backward(const Tensor& dx, const Tensor& dweight, const Tensor& dbias,
                            const Tensor& dy, const Tensor& x, const Tensor& mean,
                            const Tensor& rstd, const Tensor& weight, const RowNormShape& shape) {
  if (dweight.defined()) fill_values(dweight, 0);
  if (dbias.defined()) fill_values(dbias, 0);
  if (x.numel() == 0) return;
  visit_float(x.dtype(), "row_norm", [&](auto tag) {
    backward<typename decltype(tag)::type>(dx, dweight, dbias, dy, x, mean, rstd, weight, shape);
  });
}

}  // namespace lathe
