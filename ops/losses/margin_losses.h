// Losses that demand a margin between predictions (margin_losses.cpp, made of other ops).
//   →  0-d, or one loss per row or element for Reduction::kNone
// dtypes: f16, bf16, f32, f64; mixed ones give the wider. y may also have an integer dtype; its
// values are 1 and -1, unless the function's comment says otherwise.
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

struct SoftMarginOptions {
  Reduction reduction = Reduction::kMean;
};
/// log(1 + exp(-y x)).
///   x, y  one shape
LATHE_API Tensor soft_margin_loss(const Tensor& x, const Tensor& y,
                                  const SoftMarginOptions& options = {});

struct MultiMarginOptions {
  int64_t p = 1;  // 1 or 2
  double margin = 1.0;
  Tensor weight = {};  // [C]: factor of each class's loss; not differentiated
  Reduction reduction = Reduction::kMean;
};
/// The sum over all classes c except y of weight[y] max(0, margin - x[y] + x[c])^p / C.
///   x  [N,C] or [C]   y  [N] or 0-d, classes   →  y's shape
/// dtypes: y i64 or i32.
/// throws: ShapeError, DTypeError, DeviceError; ValueError unless p is 1 or 2; IndexError for a
/// class outside [0, C).
LATHE_API Tensor multi_margin_loss(const Tensor& x, const Tensor& y,
                                   const MultiMarginOptions& options = {});

struct MultilabelMarginOptions {
  Reduction reduction = Reduction::kMean;
};
/// The sum over every class t in y and every class c not in y of max(0, 1 - (x[t] - x[c])) / C.
///   x  [N,C] or [C]   y  x's shape: the classes of each row, ended by -1   →  [N] or 0-d
/// Makes tensors [N,T,C], where the longest row has T classes. To find T it waits for the device.
/// dtypes: y i64 or i32.
/// throws: ShapeError, DTypeError, DeviceError; IndexError for a class outside [0, C) before the
/// -1.
LATHE_API Tensor multilabel_margin_loss(const Tensor& x, const Tensor& y,
                                        const MultilabelMarginOptions& options = {});

struct MultilabelSoftMarginOptions {
  Tensor weight = {};  // [C]: factor of each class's loss; not differentiated
  Reduction reduction = Reduction::kMean;
};
/// The mean over the classes of -(y log s(x) + (1 - y) log s(-x)); s is the logistic function.
///   x, y  one shape, […,C]; y is 0 or 1   →  […]
LATHE_API Tensor multilabel_soft_margin_loss(const Tensor& x, const Tensor& y,
                                             const MultilabelSoftMarginOptions& options = {});

}  // namespace lathe
