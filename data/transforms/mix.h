// mixup and cutmix: batches in which every sample is mixed with another.
#pragma once

#include "lathe/core/config.h"
#include "lathe/core/tensor.h"
#include "lathe/data/random.h"

namespace lathe::data {

/// A mixed batch. Its loss: mixed.lambda * cross_entropy(out, mixed.y) +
/// (1 - mixed.lambda) * cross_entropy(out, mixed.partner_y).
struct Mixed {
  Tensor x;             // like the batch's x
  Tensor y, partner_y;  // of each sample, and of its partner
  double lambda = 1;    // the share of the sample itself
};

/// lambda * x[n] + (1 - lambda) * x[n-1], with x[-1] the last; lambda is drawn from Beta(alpha,
/// alpha).
///   x  [N,…] floating     y  [N,…] of any dtype, on any device; not differentiated
///   key  {seed, epoch, number of the batch}: all that is random comes from it
/// throws: ValueError unless alpha is positive and finite; ShapeError, DTypeError.
/// ref: Zhang et al. 2018 (arXiv:1710.09412); partners as in torchvision's MixUp.
LATHE_API Mixed mixup(const Tensor& x, const Tensor& y, double alpha, Key key);

/// A rectangle of x[n-1] replaces that of x[n]. Its sides are in proportion to the image's and its
/// area is 1 - lambda of the image's, with lambda from Beta(alpha, alpha); its centre is drawn
/// uniformly. Parts beyond the image are cut off, and Mixed::lambda is the share that is really
/// left.
///   x  [N,C,H,W] of any dtype     y, key  as for mixup
/// throws: as mixup.   ref: Yun et al. 2019 (arXiv:1905.04899).
LATHE_API Mixed cutmix(const Tensor& x, const Tensor& y, double alpha, Key key);

/// Beta(alpha, alpha).
/// ref: Marsaglia, Tsang 2000, "A simple method for generating gamma variables".
double draw_beta(double alpha, Random& random);

}  // namespace lathe::data
