// Adafactor; see optimizer.h for groups and state, kernels/layerwise_math.h for the formula.
#pragma once

#include <concepts>
#include <optional>
#include <utility>

#include "lathe/optim/optimizer.h"

namespace lathe::optim {

struct AdafactorOptions {
  double lr = 0.01;
  double beta2_decay = -0.8;    // not positive: t^beta2_decay is the share of the newest gradient
  double eps1 = 0;              // 0: the machine epsilon of the parameter's type, PyTorch's None
  double eps2 = 1e-3;           // the least root mean square of p that a step is proportional to
  double d = 1;                 // at least 1: the largest root mean square of u
  double weight_decay = 0;      // p *= 1 - lr·weight_decay before the step
  bool maximize = false;        // true: climbs
  bool master_weights = false;  // f32 values for half parameters: Optimizer::add_groups
};

/// Parameters with options of their own. An absent option has the optimiser's value.
struct AdafactorGroup {
  Tensors params;
  std::optional<double> lr = {}, beta2_decay = {}, eps1 = {}, eps2 = {}, d = {}, weight_decay = {};
  std::optional<bool> maximize = {};
};

/// See Note [One list of options] in optimizer.h.
template <class Visit>
void visit_options(AdafactorOptions& all, Visit visit, const AdafactorGroup& own = {}) {
  visit("lr", all.lr, own.lr, Range::kNotNegative);
  visit("beta2_decay", all.beta2_decay, own.beta2_decay, Range::kFinite);
  visit("eps1", all.eps1, own.eps1, Range::kNotNegative);
  visit("eps2", all.eps2, own.eps2, Range::kNotNegative);
  visit("d", all.d, own.d, Range::kNotNegative);
  visit("weight_decay", all.weight_decay, own.weight_decay, Range::kNotNegative);
  visit("maximize", all.maximize, own.maximize, Range::kSwitch);
}

/// What a backend gets: the options, with eps1 as it counts for these parameters.
struct AdafactorNumbers : AdafactorOptions {
  bool factored = false;  // the buffer holds the finished v of matrices
};

/// Steps as long in relation to the weights as lr says, with second moments that take little
/// memory: of a matrix only its rows and columns have one each. A parameter with more than two
/// dimensions is a stack of matrices, which are its last two dimensions. In step t = 1, 2, …:
///   s = t^beta2_decay
///   r = r + s·(mean of g² in each row - r),   c = c + s·(mean of g² in each column - c)
///   v = r·c / max(mean of r, eps1);   without rows:  v = v + s·(g² - v)
///   u = g / sqrt(max(v, eps1²))
///   a = max(eps2, rms(p))·min(lr, 1/sqrt(t)),   rms(x) = ‖x‖ / sqrt(number of elements)
///   p *= 1 - lr·weight_decay
///   p -= a / max(1, rms(u) / d)·u
/// The results are those of PyTorch 2.15, which has eps1 where the paper adds it to g². Half
/// parameters have f32 state and arithmetic here. State: row_var (r, the last dimension 1) and
/// col_var (c, the next to last 1), or variance (v).
/// Norms and steps are two launches for all parameters; r, c and v of each matrix take some ops of
/// their own, and v takes the parameter's size of memory while the step runs.
/// ZeroRedundancyOptimizer shares out whole parameters, so it changes no value.
/// throws: ValueError if lr, eps1, eps2 or weight_decay is negative, d is below 1, beta2_decay is
/// positive, or one of them is not finite; what Optimizer::add_groups throws.
/// ref: Shazeer and Stern 2018 (arXiv:1804.04235).
class LATHE_API Adafactor final : public Optimizer {
 public:
  explicit Adafactor(Tensors params, const AdafactorOptions& options = {});
  Adafactor(Tensors params, std::floating_point auto lr)
      : Adafactor(std::move(params), AdafactorOptions{.lr = lr}) {}
  explicit Adafactor(std::vector<AdafactorGroup> groups, const AdafactorOptions& options = {});

 private:
  bool measures_norms() const override { return true; }
  void check_together(const HyperParameters& hyper) const override;
  Tensors prepare_update(const HyperParameters& hyper, std::span<UpdateItem> items) const override;
  void update(const HyperParameters& hyper, std::span<const UpdateItem> items) const override;
};

}  // namespace lathe::optim
