// Adam and AdamW; see optimizer.h for groups and state, kernels/update_math.h for the formula.
#pragma once

#include <concepts>
#include <optional>
#include <utility>

#include "lathe/optim/optimizer.h"

namespace lathe::optim {

/// Decay rates of the first and second moment.
struct Betas {
  double first = 0.9, second = 0.999;
};

/// Visits both rates, for visit_options() (Note [One list of options] in optimizer.h).
template <class Visit>
void visit_betas(Betas& all, const std::optional<Betas>& own, Visit& visit) {
  using Rate = std::optional<double>;
  visit("beta1", all.first, own ? Rate(own->first) : Rate(), Range::kBelowOne);
  visit("beta2", all.second, own ? Rate(own->second) : Rate(), Range::kBelowOne);
}

struct AdamOptions {
  double lr = 1e-3;
  Betas betas = {};
  double eps = 1e-8;            // added after the bias correction
  double weight_decay = 0;      // L2: added to the gradient
  bool amsgrad = false;         // divide by the largest second moment so far
  bool master_weights = false;  // f32 values for half parameters: Optimizer::add_groups
};

struct AdamWOptions {
  double lr = 1e-3;
  Betas betas = {};
  double eps = 1e-8;
  double weight_decay = 0.01;  // p *= 1 - lr·weight_decay before the step
  bool amsgrad = false;
  bool master_weights = false;
};

/// Parameters with options of their own. An absent option has the optimiser's value.
struct AdamGroup {
  Tensors params;
  std::optional<double> lr = {};
  std::optional<Betas> betas = {};
  std::optional<double> eps = {}, weight_decay = {};
  std::optional<bool> amsgrad = {};
};

/// See Note [One list of options] in optimizer.h.
template <class Options, class Visit>
requires std::same_as<Options, AdamOptions> || std::same_as<Options, AdamWOptions>
void visit_options(Options& all, Visit visit, const AdamGroup& own = {}) {
  visit("lr", all.lr, own.lr, Range::kNotNegative);
  visit_betas(all.betas, own.betas, visit);
  visit("eps", all.eps, own.eps, Range::kNotNegative);
  visit("weight_decay", all.weight_decay, own.weight_decay, Range::kNotNegative);
  visit("amsgrad", all.amsgrad, own.amsgrad, Range::kSwitch);
}

/// Base of Adam and AdamW. State: exp_avg, exp_avg_sq and, with amsgrad, max_exp_avg_sq.
/// throws: ValueError if lr, eps or weight_decay is negative or not finite, or a beta is outside
/// [0,1); what Optimizer::add_groups throws.
class LATHE_API AdamBase : public Optimizer {
 protected:
  AdamBase(const char* name, bool decoupled);

 private:
  void update(const HyperParameters& hyper, std::span<const UpdateItem> items) const final;

  bool decoupled_;  // the weight decay acts on the parameter, not on the gradient
};

/// Divides the running mean of the gradients by the root of the running mean of their squares.
/// Weight decay is added to the gradient g of each parameter p.
///   g += weight_decay·p
///   m = running mean of g,  v = running mean of g²
///   p -= lr·m̂ / (sqrt(v̂) + eps), where m̂ and v̂ are m and v with bias correction
class LATHE_API Adam final : public AdamBase {
 public:
  explicit Adam(Tensors params, const AdamOptions& options = {});
  Adam(Tensors params, std::floating_point auto lr)
      : Adam(std::move(params), AdamOptions{.lr = lr}) {}
  explicit Adam(std::vector<AdamGroup> groups, const AdamOptions& options = {});
};

/// First p *= 1 - lr·weight_decay, then the step of Adam with weight_decay = 0.
class LATHE_API AdamW final : public AdamBase {
 public:
  explicit AdamW(Tensors params, const AdamWOptions& options = {});
  AdamW(Tensors params, std::floating_point auto lr)
      : AdamW(std::move(params), AdamWOptions{.lr = lr}) {}
  explicit AdamW(std::vector<AdamGroup> groups, const AdamWOptions& options = {});
};

}  // namespace lathe::optim
