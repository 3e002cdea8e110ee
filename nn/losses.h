// Losses as objects that keep their options:
//   nn::CrossEntropyLoss loss{{.label_smoothing = 0.1}};  loss(logits, labels);
// They have no parameters. The ops have the formulas.
#pragma once

#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/ops/losses/losses.h"
#include "lathe/ops/losses/margin_losses.h"
#include "lathe/ops/losses/nll_loss.h"

namespace lathe::nn {

struct CrossEntropyLoss {
  CrossEntropyOptions options = {};
  Tensor operator()(const Tensor& logits, const Tensor& target) const {
    return cross_entropy(logits, target, options);
  }
};

struct NLLLoss {
  NllLossOptions options = {};
  Tensor operator()(const Tensor& logp, const Tensor& target) const {
    return nll_loss(logp, target, options);
  }
};

struct MSELoss {
  LossOptions options = {};
  Tensor operator()(const Tensor& x, const Tensor& y) const { return mse_loss(x, y, options); }
};

struct SmoothL1Loss {
  SmoothL1Options options = {};
  Tensor operator()(const Tensor& x, const Tensor& y) const {
    return smooth_l1_loss(x, y, options);
  }
};

struct L1Loss {
  LossOptions options = {};
  Tensor operator()(const Tensor& x, const Tensor& y) const { return l1_loss(x, y, options); }
};

struct BCEWithLogitsLoss {
  BceOptions options = {};
  Tensor operator()(const Tensor& x, const Tensor& y) const {
    return bce_with_logits(x, y, options);
  }
};

struct BCELoss {
  BinaryCrossEntropyOptions options = {};
  Tensor operator()(const Tensor& x, const Tensor& y) const {
    return binary_cross_entropy(x, y, options);
  }
};

struct HuberLoss {
  HuberOptions options = {};
  Tensor operator()(const Tensor& x, const Tensor& y) const { return huber_loss(x, y, options); }
};

struct KLDivLoss {
  KlDivOptions options = {};
  Tensor operator()(const Tensor& x, const Tensor& y) const { return kl_div(x, y, options); }
};

struct PoissonNLLLoss {
  PoissonNllOptions options = {};
  Tensor operator()(const Tensor& x, const Tensor& y) const {
    return poisson_nll_loss(x, y, options);
  }
};

struct GaussianNLLLoss {
  GaussianNllOptions options = {};
  Tensor operator()(const Tensor& x, const Tensor& y, const Tensor& var) const {
    return gaussian_nll_loss(x, y, var, options);
  }
};

struct CosineEmbeddingLoss {
  CosineEmbeddingOptions options = {};
  Tensor operator()(const Tensor& x1, const Tensor& x2, const Tensor& y) const {
    return cosine_embedding_loss(x1, x2, y, options);
  }
};

struct HingeEmbeddingLoss {
  HingeEmbeddingOptions options = {};
  Tensor operator()(const Tensor& x, const Tensor& y) const {
    return hinge_embedding_loss(x, y, options);
  }
};

struct MarginRankingLoss {
  MarginRankingOptions options = {};
  Tensor operator()(const Tensor& x1, const Tensor& x2, const Tensor& y) const {
    return margin_ranking_loss(x1, x2, y, options);
  }
};

struct TripletMarginLoss {
  TripletMarginOptions options = {};
  Tensor operator()(const Tensor& anchor, const Tensor& positive, const Tensor& negative) const {
    return triplet_margin_loss(anchor, positive, negative, options);
  }
};

}  // namespace lathe::nn
