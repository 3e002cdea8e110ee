// init::dirac_ and init::whitening_: filters that are computed on the CPU, then copied.

// Note [Names of header-only libraries] in core/json.h.
#define Eigen EigenForBaseline
#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "lathe/autograd/grad_mode.h"
#include "lathe/nn/init.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/floating_check.h"
#include "lathe/ops/inplace.h"
#include "lathe/ops/join.h"
#include "lathe/ops/views.h"

namespace lathe::nn::init {

namespace {

/// The mean of p·pᵀ over all patches p of height x width, in the order of a filter's numbers.
Eigen::MatrixXd patch_moments(const Tensor& images, int64_t height, int64_t width) {
  const Tensor here = images.to(kCPU);
  const int64_t channels = here.dim(1), rows = here.dim(2), columns = here.dim(3);
  const int64_t high = rows - height + 1, wide = columns - width + 1;
  const int64_t size = channels * height * width;
  Eigen::MatrixXd patches(high * wide, size), sum = Eigen::MatrixXd::Zero(size, size);
  for (int64_t n = 0; n < here.dim(0); ++n) {
    const Tensor image = here.select(0, n).to(kF64).contiguous();
    for (int64_t d = 0; d < size; ++d) {
      const int64_t c = d / (height * width), r = d / width % height, s = d % width;
      const double* from = image.data<double>() + (c * rows + r) * columns + s;
      for (int64_t p = 0; p < high; ++p, from += columns)
        for (int64_t q = 0; q < wide; ++q) patches(p * wide + q, d) = from[q];
    }
    sum += patches.transpose() * patches;
  }
  return sum / static_cast<double>(here.dim(0) * high * wide);
}

}  // namespace

const Tensor& dirac_(const Tensor& w) {
  const NoGrad off;
  LATHE_CHECK(ShapeError, w.ndim() >= 3, "dirac_: expected at least 3 dimensions (w: ", w, ")");
  Tensor middle = w;
  for (int64_t d = w.ndim() - 1; d >= 2; --d) {
    if (w.dim(d) == 0) return w;
    middle = middle.select(d, w.dim(d) / 2);
  }
  w.fill_(0);
  for (int64_t k = 0; k < std::min(w.dim(0), w.dim(1)); ++k)
    middle.select(0, k).select(0, k).fill_(1);
  return w;
}

const Tensor& whitening_(const Tensor& w, const Tensor& images, const WhiteningOptions& options) {
  const NoGrad off;
  check_floating("whitening_", w);
  check_floating("whitening_", images);
  LATHE_CHECK(ShapeError, w.ndim() == 4 && w.dim(0) == 2 * w.dim(1) * w.dim(2) * w.dim(3),
              "whitening_: w must be [2·C·R·S,C,R,S] (w: ", w, ")");
  LATHE_CHECK(ShapeError, images.ndim() == 4 && images.dim(1) == w.dim(1),
              "whitening_: images must be [N,", w.dim(1), ",H,W] (images: ", images, ", w: ", w,
              ")");
  LATHE_CHECK(ValueError,
              images.dim(0) > 0 && images.dim(2) >= w.dim(2) && images.dim(3) >= w.dim(3),
              "whitening_: the images have no patch of ", w.dim(2), "x", w.dim(3),
              " (images: ", images, ")");
  LATHE_CHECK(ValueError, options.eps >= 0, "whitening_: eps must not be negative, got ",
              options.eps);
  if (w.numel() == 0) return w;
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(
      patch_moments(images, w.dim(2), w.dim(3)));
  const int64_t size = w.dim(0) / 2;
  const Tensor filters = empty({size, size}, {.dtype = kF64});
  for (int64_t i = 0; i < size; ++i) {
    const int64_t column = size - 1 - i;  // Eigen has the smallest eigenvalue first
    const double root = std::sqrt(std::max(solver.eigenvalues()[column], 0.0) + options.eps);
    for (int64_t d = 0; d < size; ++d)
      filters.data<double>()[i * size + d] = solver.eigenvectors()(d, column) / root;
  }
  return copy_(w, reshape(cat({filters, -filters}, 0), w.shape()));
}

}  // namespace lathe::nn::init
