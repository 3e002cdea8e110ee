// Losses as objects that keep their options:
//   nn::CrossEntropyLoss loss{{.label_smoothing = 0.1}};  loss(logits, labels);
// They have no parameters. The ops have the formulas.
#pragma once

#include "lathe/ops/cross_entropy.h"
#include "lathe/ops/losses.h"
#include "lathe/ops/nll_loss.h"

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

}  // namespace lathe::nn
