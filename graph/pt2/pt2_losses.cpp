// Losses, for programs that compute them.
// Contract: pt2_call.h.
#include "lathe/ops/losses/losses.h"

#include "lathe/graph/pt2/pt2_call.h"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/ops/losses/margin_losses.h"
#include "lathe/ops/losses/nll_loss.h"

namespace lathe::jit::pt2 {

namespace {

/// The argument "reduction": PyTorch's number.
Reduction reduction_of(const Call& c) {
  switch (const int64_t number = c.integer("reduction", 1); number) {
    case 0: return Reduction::kNone;
    case 1: return Reduction::kMean;
    case 2: return Reduction::kSum;
    default: c.refuse(concat("has the reduction ", number, ", which is not known"));
  }
}

void mse_of(Call& c) {
  c.result(mse_loss(c.tensor("self"), c.tensor("target"), {.reduction = reduction_of(c)}));
}
void l1_of(Call& c) {
  c.result(l1_loss(c.tensor("self"), c.tensor("target"), {.reduction = reduction_of(c)}));
}
void smooth_l1_of(Call& c) {
  c.result(smooth_l1_loss(c.tensor("self"), c.tensor("target"),
                          {.beta = c.real("beta", 1.0), .reduction = reduction_of(c)}));
}
void huber_of(Call& c) {
  c.result(huber_loss(c.tensor("self"), c.tensor("target"),
                      {.delta = c.real("delta", 1.0), .reduction = reduction_of(c)}));
}
void bce_of(Call& c) {
  c.result(binary_cross_entropy(c.tensor("self"), c.tensor("target"),
                                {.weight = c.maybe("weight"), .reduction = reduction_of(c)}));
}
void bce_with_logits_of(Call& c) {
  c.result(bce_with_logits(c.tensor("self"), c.tensor("target"),
                           {.weight = c.maybe("weight"),
                            .pos_weight = c.maybe("pos_weight"),
                            .reduction = reduction_of(c)}));
}
void kl_div_of(Call& c) {
  c.result(kl_div(c.tensor("self"), c.tensor("target"),
                  {.log_target = c.boolean("log_target", false), .reduction = reduction_of(c)}));
}
void poisson_nll_of(Call& c) {
  c.result(poisson_nll_loss(c.tensor("input"), c.tensor("target"),
                            {.log_input = c.boolean("log_input", true),
                             .full = c.boolean("full", false),
                             .eps = c.real("eps", 1e-8),
                             .reduction = reduction_of(c)}));
}

void cross_entropy_of(Call& c) {
  c.result(cross_entropy(c.tensor("self"), c.tensor("target"),
                         {.weight = c.maybe("weight"),
                          .ignore_index = c.integer("ignore_index", -100),
                          .label_smoothing = c.real("label_smoothing", 0.0),
                          .reduction = reduction_of(c)}));
}
void nll_of(Call& c) {
  c.result(nll_loss(c.tensor("self"), c.tensor("target"),
                    {.weight = c.maybe("weight"),
                     .ignore_index = c.integer("ignore_index", -100),
                     .reduction = reduction_of(c)}));
}

void cosine_embedding_of(Call& c) {
  c.result(cosine_embedding_loss(c.tensor("input1"), c.tensor("input2"), c.tensor("target"),
                                 {.margin = c.real("margin", 0.0), .reduction = reduction_of(c)}));
}
void hinge_embedding_of(Call& c) {
  c.result(hinge_embedding_loss(c.tensor("self"), c.tensor("target"),
                                {.margin = c.real("margin", 1.0), .reduction = reduction_of(c)}));
}
void margin_ranking_of(Call& c) {
  c.result(margin_ranking_loss(c.tensor("input1"), c.tensor("input2"), c.tensor("target"),
                               {.margin = c.real("margin", 0.0), .reduction = reduction_of(c)}));
}
void triplet_margin_of(Call& c) {
  c.result(triplet_margin_loss(c.tensor("anchor"), c.tensor("positive"), c.tensor("negative"),
                               {.margin = c.real("margin", 1.0),
                                .p = c.real("p", 2.0),
                                .eps = c.real("eps", 1e-6),
                                .swap = c.boolean("swap", false),
                                .reduction = reduction_of(c)}));
}

// clang-format off
constexpr Target kLosses[] = {
    {"aten.mse_loss.default", mse_of}, {"aten.l1_loss.default", l1_of}, {"aten.smooth_l1_loss.default", smooth_l1_of}, {"aten.huber_loss.default", huber_of},
    {"aten.binary_cross_entropy.default", bce_of}, {"aten.binary_cross_entropy_with_logits.default", bce_with_logits_of},
    {"aten.kl_div.default", kl_div_of}, {"aten.poisson_nll_loss.default", poisson_nll_of},
    {"aten.cross_entropy_loss.default", cross_entropy_of}, {"aten.nll_loss.default", nll_of}, {"aten.nll_loss_nd.default", nll_of}, {"aten.nll_loss2d.default", nll_of},
    {"aten.cosine_embedding_loss.default", cosine_embedding_of}, {"aten.hinge_embedding_loss.default", hinge_embedding_of},
    {"aten.soft_margin_loss.default", [](Call& c) { c.result(soft_margin_loss(c.tensor("self"), c.tensor("target"), {.reduction = reduction_of(c)})); }},
    {"aten.multilabel_margin_loss.default", [](Call& c) { c.result(multilabel_margin_loss(c.tensor("self"), c.tensor("target"), {.reduction = reduction_of(c)})); }},
    {"aten.margin_ranking_loss.default", margin_ranking_of}, {"aten.triplet_margin_loss.default", triplet_margin_of},
};
// clang-format on

}  // namespace

std::span<const Target> loss_targets() { return kLosses; }

}  // namespace lathe::jit::pt2
