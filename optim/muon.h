// Muon; see optimizer.h for groups and state, kernels/element_rules.h for the formula.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <utility>

#include "lathe/optim/adam.h"

namespace lathe::optim {

struct NewtonSchulzOptions {
  int64_t steps = 5;
  bool bf16 = false;  // products in bf16, sums in f32
};
/// Brings the singular values of matrices near to 1 and keeps their singular vectors: U S Vᵀ
/// becomes U S' Vᵀ, where S' lies between about 0.7 and 1.2 after 5 steps unless S was tiny.
///   x ← x / max(‖x‖, 1e-7),   then in each step, with A = x xᵀ,
///   x ← 3.4445·x + (-4.7750·A + 2.0315·A²) x
///   x  […,m,n] → the same shape
/// dtypes: f32, f64.   grad: none.   throws: ShapeError, DTypeError.
/// ref: Jordan et al. 2024 (kellerjordan.github.io/posts/muon).
LATHE_API Tensor newton_schulz(const Tensor& x, const NewtonSchulzOptions& options = {});

struct MuonOptions {
  static constexpr const char* kName = "Muon";

  double lr = 1e-3;
  double weight_decay = 0.1;  // p *= 1 - lr·weight_decay before the step
  double momentum = 0.95;
  bool nesterov = true;
  int64_t ns_steps = 5;
  bool ns_bf16 = true;           // as PyTorch; false: products of the parameter's precision
  bool match_rms_adamw = false;  // true: steps as large as AdamW's, so that AdamW's lr fits
  bool normalize = false;        // true: p first gets the norm sqrt(rows), rows = p.dim(0)
  bool use_adamw = false;        // true: this is AdamW, for what is not a hidden matrix
  bool use_sgd = false;          // true: this is SGD, likewise
  Betas betas = {};              // of use_adamw
  double eps = 1e-8;             // of use_adamw
  bool master_weights = false;   // f32 values for half parameters: Optimizer::add_groups
};

/// Parameters with options of their own. An absent option has the optimiser's value.
struct MuonGroup {
  Tensors params;
  std::optional<double> lr = {}, weight_decay = {}, momentum = {};
  std::optional<bool> nesterov = {};
  std::optional<int64_t> ns_steps = {};
  std::optional<bool> ns_bf16 = {}, match_rms_adamw = {}, normalize = {};
  std::optional<bool> use_adamw = {}, use_sgd = {};
  std::optional<Betas> betas = {};
  std::optional<double> eps = {};
};

/// See Note [One list of options] in optimizer.h.
template <class Visit>
void visit_options(MuonOptions& all, Visit visit, const MuonGroup& own = {}) {
  visit("lr", all.lr, own.lr, Range::kNotNegative);
  visit("weight_decay", all.weight_decay, own.weight_decay, Range::kNotNegative);
  visit("momentum", all.momentum, own.momentum, Range::kBelowOne);
  visit("nesterov", all.nesterov, own.nesterov, Range::kSwitch);
  visit("ns_steps", all.ns_steps, own.ns_steps, Range::kNotNegative);
  visit("ns_bf16", all.ns_bf16, own.ns_bf16, Range::kSwitch);
  visit("match_rms_adamw", all.match_rms_adamw, own.match_rms_adamw, Range::kSwitch);
  visit("normalize", all.normalize, own.normalize, Range::kSwitch);
  visit("use_adamw", all.use_adamw, own.use_adamw, Range::kSwitch);
  visit("use_sgd", all.use_sgd, own.use_sgd, Range::kSwitch);
  visit_betas(all.betas, own.betas, visit);
  visit("eps", all.eps, own.eps, Range::kNotNegative);
}

/// Momentum whose matrices are made nearly orthogonal before each step. It is for the hidden
/// matrices and filters of a network: split_for_muon() in param_groups.h finds them. Filters
/// [O,I,…] are matrices [O, I·…].
///   m = momentum·m + (1 - momentum)·g
///   u = newton_schulz(nesterov ? momentum·m + (1 - momentum)·g : m)
///   p *= sqrt(rows) / max(‖p‖, 1e-7)   with normalize
///   p *= 1 - lr·weight_decay
///   p -= lr·s·u,   s = sqrt(max(1, rows / columns)), or with match_rms_adamw
///                  0.2·sqrt(max(rows, columns))
/// normalize is for filters before a batch norm: the length of such filters does not change the
/// norm's results. With normalize, a learning rate turns the filters of all layers by one angle.
/// All other parameters belong in groups {.use_adamw = true}, which AdamW updates, or
/// {.use_sgd = true}, which SGD updates with the group's momentum, nesterov and weight_decay:
///   auto [hidden, others] = split_for_muon(model);
///   Muon opt({{.params = hidden, .lr = 0.02}, {.params = others, .use_adamw = true}},
///            {.lr = 3e-4});
/// Matrices of one shape go through the products of newton_schulz() together. The step needs
/// memory for u and the products. State: exp_avg (m, or SGD's momentum), and with use_adamw
/// exp_avg_sq.
/// throws: ValueError for a vector or number in a group with neither use_adamw nor use_sgd, a group
/// with both, an option that is negative or not finite, a momentum or beta outside [0,1); what
/// Optimizer::add_groups throws. step() also throws StateError for a matrix in which neither the
/// rows nor the columns are contiguous in memory.
/// ref: Jordan et al. 2024; match_rms_adamw: Liu et al. 2025 (arXiv:2502.16982); normalize: Jordan
/// 2024 (github.com/KellerJordan/cifar10-airbench).
class LATHE_API Muon final : public Optimizer {
 public:
  explicit Muon(Tensors params, const MuonOptions& options = {});
  Muon(Tensors params, std::floating_point auto lr)
      : Muon(std::move(params), MuonOptions{.lr = lr}) {}
  explicit Muon(std::vector<MuonGroup> groups, const MuonOptions& options = {});

 private:
  void check_together(const HyperParameters& hyper) const override;
  Tensors prepare_update(const HyperParameters& hyper, std::span<UpdateItem> items) const override;
  void update(const HyperParameters& hyper, std::span<const UpdateItem> items) const override;
};

}  // namespace lathe::optim
