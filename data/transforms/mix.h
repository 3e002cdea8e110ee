// mixup and cutmix: batches in which every sample is mixed with another.
#pragma once

#include "lathe/core/config.h"
#include "lathe/core/tensor.h"
#include "lathe/data/random.h"

namespace lathe::data {

/// A mixed batch. Its loss is mixed.lambda * cross_entropy(out, mixed.y) +
/// (1 - mixed.lambda) * cross_entropy(out, mixed.partner_y).
struct Mixed {
  Tensor x;             // like the batch's x
  Tensor y, partner_y;  // targets of each sample and of its partner
  double lambda = 1;    // the share of the sample itself
};

/// Mixes each sample with the sample before it in the batch: lambda * x[n] + (1 - lambda) * x[n-1].
/// The partner of x[0] is the last sample. lambda is drawn from Beta(alpha, alpha).
///   x  [N,…] floating     y  [N,…] of any dtype, on any device; not differentiated
///   key  {seed, epoch, number of the batch}; determines all random numbers
/// throws: ValueError unless alpha is positive and finite; ShapeError, DTypeError.
/// ref: Zhang et al. 2018 (arXiv:1710.09412); partners as in torchvision's MixUp.
LATHE_API Mixed mixup(const Tensor& x, const Tensor& y, double alpha, Key key);

/// Replaces a rectangle of x[n] by the same rectangle of x[n-1]. The rectangle has the proportions
/// of the image and 1 - lambda of its area, where lambda is drawn from Beta(alpha, alpha). Its
/// centre is drawn uniformly, and parts outside the image are cut off. Mixed::lambda is the share
/// of x[n] after the cut.
///   x  [N,C,H,W] of any dtype     y, key  as for mixup
/// throws: what mixup throws.   ref: Yun et al. 2019 (arXiv:1905.04899).
LATHE_API Mixed cutmix(const Tensor& x, const Tensor& y, double alpha, Key key);

/// Draws a number of the distribution Beta(alpha, alpha).
/// ref: Marsaglia, Tsang 2000, "A simple method for generating gamma variables".
double draw_beta(double alpha, Random& random);

}  // namespace lathe::data
