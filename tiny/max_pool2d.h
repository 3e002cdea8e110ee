// Max pooling: the largest value of each window. A change of the largest changes the output by as
// much, and a change of the others not at all. So the gradient goes where the largest value was,
// and it is enough to keep its place.
#pragma once

#include "views.h"

namespace tiny {

/// The largest of each k x k window; NaN if it holds one. Windows lie side by side, and pixels
/// beyond the last whole one are left out. Of several that are the largest the first gets dy.
///   x [N,C,H,W]  →  [N,C,H/k,W/k]
/// throws: ShapeError if x has another shape or is smaller than a window.
inline Tensor max_pool2d(const Tensor& x_in, int64_t k) {
  check<ShapeError>(x_in.ndim() == 4 && k > 0 && x_in.dim(2) >= k && x_in.dim(3) >= k,
                    "max_pool2d: x must be [N,C,H,W] and not smaller than windows of ", k, ", got ",
                    x_in.shape());
  const Tensor x = contiguous(detach(x_in));
  const int64_t planes = x.dim(0) * x.dim(1), H = x.dim(2), W = x.dim(3), P = H / k, Q = W / k;
  Tensor y({x.dim(0), x.dim(1), P, Q});
  std::vector<int64_t> largest;  // for each output the place in x
  const double* value = x.data();
  for (int64_t plane = 0; plane < planes; ++plane)
    for (int64_t p = 0; p < P; ++p)
      for (int64_t q = 0; q < Q; ++q) {
        int64_t best = (plane * H + p * k) * W + q * k;
        for (int64_t r = 0; r < k; ++r)
          for (int64_t s = 0; s < k; ++s) {
            const int64_t at = (plane * H + p * k + r) * W + q * k + s;
            if (value[at] > value[best] || std::isnan(value[at])) best = at;
          }
        y.data()[largest.size()] = value[best];
        largest.push_back(best);
      }
  return record(
      "max_pool2d", y, {x_in},
      [largest = std::move(largest), shape = x.shape()](const Tensor& dy_in, const Needs&) {
        const Tensor dy = contiguous(dy_in);
        Tensor dx(shape);
        for (size_t i = 0; i < largest.size(); ++i) dx.data()[largest[i]] = dy.data()[i];
        return std::vector{dx};
      });
}

}  // namespace tiny

// What the real one adds, and why
// - ops/pool2d.h: windows that overlap, padding, averages. Where windows overlap, each thread of a
//   GPU collects for one input: no two add to one number (ops/window_kernels/pool2d_cuda.cu).
