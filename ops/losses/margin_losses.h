// Losses that demand a margin between predictions (margin_losses.cpp, made of other ops).
//   →  0-d, or one loss per row or element for Reduction::kNone
// dtypes: f16, bf16, f32, f64; mixed ones give the wider. y, which is 1 or -1, may also have an
// integer dtype.
// grad: the predictions, twice differentiable.   amp: float.
// throws: ShapeError (nothing broadcasts), DTypeError, DeviceError.
#pragma once

#include "lathe/core/tensor.h"
#include "lathe/ops/losses/loss_reduction.h"

namespace lathe {

struct CosineEmbeddingOptions {
  double margin = 0.0;
  Reduction reduction = Reduction::kMean;
};
/// 1 - cos(x1, x2) where y = 1, max(0, cos(x1, x2) - margin) where y = -1.
///   x1, x2  [N,D] or [D]   y  [N] or 0-d   →  y's shape
LATHE_API Tensor cosine_embedding_loss(const Tensor& x1, const Tensor& x2, const Tensor& y,
                                       const CosineEmbeddingOptions& options = {});

struct HingeEmbeddingOptions {
  double margin = 1.0;
  Reduction reduction = Reduction::kMean;
};
/// x where y = 1, max(0, margin - x) where y = -1; x is a distance.
///   x, y  one shape
LATHE_API Tensor hinge_embedding_loss(const Tensor& x, const Tensor& y,
                                      const HingeEmbeddingOptions& options = {});

struct MarginRankingOptions {
  double margin = 0.0;
  Reduction reduction = Reduction::kMean;
};
/// max(0, margin - y (x1 - x2)). y = 1 asks for x1 > x2, y = -1 for x2 > x1.
///   x1, x2, y  one shape
LATHE_API Tensor margin_ranking_loss(const Tensor& x1, const Tensor& x2, const Tensor& y,
                                     const MarginRankingOptions& options = {});

struct TripletMarginOptions {
  double margin = 1.0;
  double p = 2;       // of the distance
  double eps = 1e-6;  // as pairwise_distance
  // true: uses the smaller of d(anchor, negative) and d(positive, negative) for the negative.
  bool swap = false;
  Reduction reduction = Reduction::kMean;
};
/// max(0, d(anchor, positive) - d(anchor, negative) + margin), where d is pairwise_distance
/// (ops/distance.h).
///   anchor, positive, negative  one shape, […,D]   →  […]
/// ref: Balntas et al. 2016 (http://www.bmva.org/bmvc/2016/papers/paper119).
LATHE_API Tensor triplet_margin_loss(const Tensor& anchor, const Tensor& positive,
                                     const Tensor& negative,
                                     const TripletMarginOptions& options = {});

}  // namespace lathe
