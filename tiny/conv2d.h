// Convolution as a matrix product. For images x [N,C,H,W] and filters w [K,C,R,S],
//
//   y[n,k,p,q] = sum over c,r,s of x[n, c, p * stride - pad + r, q * stride - pad + s] * w[k,c,r,s]
//
// where x is 0 outside of the image. The sizes: N images, C channels, H x W pixels; K filters of
// R x S; P x Q pixels of output. (In matmul.h K is the length of the sums, which is CRS here.)
//
// Write what output (p,q) sees into column (p,q) of a matrix `patches`. Then the sum over c,r,s is
// that of a product of matrices, image by image:
//
//   y[K, PQ] = w[K, CRS] * patches[CRS, PQ]
//
// and so are the gradients, by the rule of matmul.h:
//
//   dw[K, CRS]        = dy[K, PQ] * transposed patches, summed over the images
//   dpatches[CRS, PQ] = transposed w * dy[K, PQ]
//
// What is left is the gradient of making patches. That copies a pixel into every column that sees
// it. So the gradient of the pixel is the sum over these columns: the same walk, with the copy
// `patch = pixel` turned into `pixel += patch`.
#pragma once

#include "matmul.h"

namespace tiny {

struct Conv2dOptions {
  int64_t stride = 1;
  int64_t pad = 0;  // zeros on each side
};

/// The sizes of one convolution, checked.
struct Conv2dSizes {
  int64_t N, C, H, W;  // x
  int64_t K, R, S;     // w, with C
  int64_t P, Q;        // y, with N and K
  Conv2dOptions opt;
  int64_t CRS() const { return C * R * S; }
  int64_t PQ() const { return P * Q; }
};

/// throws: ShapeError naming both shapes; ValueError for the options.
inline Conv2dSizes conv2d_sizes(const Shape& x, const Shape& w, const Conv2dOptions& opt) {
  check<ValueError>(opt.stride > 0 && opt.pad >= 0, "conv2d: the stride ", opt.stride,
                    " must be positive and pad ", opt.pad, " not negative");
  check<ShapeError>(x.size() == 4 && w.size() == 4,
                    "conv2d: x must be [N,C,H,W] and w [K,C,R,S], got ", x, " and ", w);
  check<ShapeError>(x[1] == w[1], "conv2d: x has ", x[1], " channels but w expects ", w[1],
                    " (x: ", x, ", w: ", w, ")");
  Conv2dSizes z{x[0], x[1], x[2], x[3], w[0], w[2], w[3], 0, 0, opt};
  check<ShapeError>(z.H + 2 * opt.pad >= z.R && z.W + 2 * opt.pad >= z.S, "conv2d: filters ", w,
                    " are larger than images ", x, " with a border of ", opt.pad);
  z.P = (z.H + 2 * opt.pad - z.R) / opt.stride + 1;
  z.Q = (z.W + 2 * opt.pad - z.S) / opt.stride + 1;
  return z;
}

/// Calls f(place in patches, place in the image) for every place in patches [CRS, PQ] that shows a
/// pixel and not the border.
template <class F>
void for_each_patch_pixel(const Conv2dSizes& z, F&& f) {
  for (int64_t c = 0; c < z.C; ++c)
    for (int64_t r = 0; r < z.R; ++r)
      for (int64_t s = 0; s < z.S; ++s)
        for (int64_t p = 0; p < z.P; ++p) {
          const int64_t h = p * z.opt.stride - z.opt.pad + r;
          if (h < 0 || h >= z.H) continue;
          for (int64_t q = 0; q < z.Q; ++q) {
            const int64_t v = q * z.opt.stride - z.opt.pad + s;
            if (v < 0 || v >= z.W) continue;
            f((((c * z.R + r) * z.S + s) * z.P + p) * z.Q + q, (c * z.H + h) * z.W + v);
          }
        }
}

/// Image n of row-major x [N,…] as a matrix: a view.
inline Tensor image_of(const Tensor& x, int64_t n, int64_t rows, int64_t columns) {
  return x.as_strided({rows, columns}, {columns, 1}, x.offset() + n * rows * columns);
}

/// patches [CRS, PQ] of image n.
inline Tensor patches_of(const Tensor& x, int64_t n, const Conv2dSizes& z) {
  const Tensor image = image_of(x, n, z.C, z.H * z.W);
  Tensor patches({z.CRS(), z.PQ()});
  double* to = patches.data();
  const double* from = image.data();
  for_each_patch_pixel(z, [&](int64_t patch, int64_t pixel) { to[patch] = from[pixel]; });
  return patches;
}

inline Tensor conv2d_input_grad(const Tensor& dy, const Tensor& w, const Conv2dSizes& z) {
  const Tensor w_transposed = contiguous(transpose(reshape(w, {z.K, z.CRS()})));
  Tensor dx({z.N, z.C, z.H, z.W});
  for (int64_t n = 0; n < z.N; ++n) {
    Tensor dpatches({z.CRS(), z.PQ()});
    add_product(w_transposed, image_of(dy, n, z.K, z.PQ()), dpatches);
    double* to = image_of(dx, n, z.C, z.H * z.W).data();
    const double* from = dpatches.data();
    for_each_patch_pixel(z, [&](int64_t patch, int64_t pixel) { to[pixel] += from[patch]; });
  }
  return dx;
}

inline Tensor conv2d_weight_grad(const Tensor& dy, const Tensor& x, const Conv2dSizes& z) {
  Tensor dw({z.K, z.CRS()});
  for (int64_t n = 0; n < z.N; ++n)
    add_product(image_of(dy, n, z.K, z.PQ()), contiguous(transpose(patches_of(x, n, z))), dw);
  return reshape(dw, {z.K, z.C, z.R, z.S});
}

/// The convolution above, without a bias.
///   x [N,C,H,W], w [K,C,R,S]  →  [N,K,P,Q],  P = (H + 2 * pad - R) / stride + 1,  Q likewise
/// throws: ShapeError, ValueError.
inline Tensor conv2d(const Tensor& x_in, const Tensor& w_in, const Conv2dOptions& opt = {}) {
  const Conv2dSizes z = conv2d_sizes(x_in.shape(), w_in.shape(), opt);
  const Tensor x = contiguous(detach(x_in)), w = contiguous(detach(w_in));
  Tensor y({z.N, z.K, z.P, z.Q});
  for (int64_t n = 0; n < z.N; ++n) {
    Tensor y_n = image_of(y, n, z.K, z.PQ());
    add_product(reshape(w, {z.K, z.CRS()}), patches_of(x, n, z), y_n);
  }
  return record("conv2d", y, {x_in, w_in},
                [x = Saved(x), w = Saved(w), z](const Tensor& dy_in, const Needs& need) {
                  const Tensor dy = contiguous(dy_in);
                  return std::vector{need[0] ? conv2d_input_grad(dy, w.get(), z) : Tensor(),
                                     need[1] ? conv2d_weight_grad(dy, x.get(), z) : Tensor()};
                });
}

}  // namespace tiny

// What the real one adds, and why
// - ops/conv2d.h: bias, dilation, groups. ops/conv/cpu/conv2d_im2col_cpu.cpp is this file, with
//   tiles of patches that fit the cache. It makes them again in the backward pass, too: kept, they
//   would be R * S times as large as x.
// - ops/conv/search/conv_search.h tries several methods, as the sizes decide which is fastest.
