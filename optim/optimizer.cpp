// Optimizer: parameter groups, hyper-parameters and learning rates, zero_grad(). step() is in
// optimizer_step.cpp, the state in optimizer_state.cpp.
#include "lathe/optim/optimizer.h"

#include <algorithm>
#include <cmath>
#include <unordered_set>

#include "lathe/autograd/half_copy.h"
#include "lathe/core/copy.h"
#include "lathe/core/dense.h"
#include "lathe/core/hooks/range.h"
#include "lathe/core/log.h"

namespace lathe::optim {

double Optimizer::HyperParameters::operator()(std::string_view name) const {
  for (const HyperParameter& h : *this) {
    if (h.name == name) return h.value;
  }
  LATHE_FAIL(ValueError, "optimizer: no hyper-parameter \"", name, "\"");
}

Optimizer::Optimizer(const char* name, std::vector<BufferName> buffers)
    : name_(name), buffer_names_(std::move(buffers)) {
  buffer_names_.push_back({.name = "master_param"});
}

Optimizer::~Optimizer() = default;

void Optimizer::add_group(Tensors params, HyperParameters hyper, bool master_weights) {
  LATHE_CHECK(ValueError, !params.empty(), name_, ": group ", groups_.size(), " has no parameters");
  check(hyper);
  std::unordered_set<const TensorImpl*> known;
  for (const Group& group : groups_) {
    for (const Slot& slot : group.entries) known.insert(slot.param.handle().get());
  }
  Group group{.entries = {},
              .hyper = std::move(hyper),
              .initial_lr = 0,
              .master_weights = master_weights,
              .counts = {}};
  group.initial_lr = group.hyper("lr");
  for (size_t i = 0; i < params.size(); ++i) {
    const Tensor& p = params[i];
    LATHE_CHECK(ValueError, p.defined(), name_, ": parameter ", i, " of group ", groups_.size(),
                " is undefined");
    LATHE_CHECK(DTypeError, is_floating(p.dtype()), name_, ": parameter ", i, " is not floating (",
                p, ")");
    LATHE_CHECK(StateError, p.is_leaf(), name_, ": parameter ", i,
                " is not a leaf but the result of ", p.grad_fn(), " (", p, ")");
    LATHE_CHECK(ValueError, known.insert(p.handle().get()).second, name_, ": parameter ", i,
                " of group ", groups_.size(), " appears twice (", p, ")");
    group.entries.push_back({.param = p, .step = 0, .buffers = Tensors(buffer_names_.size())});
  }
  if (std::ranges::none_of(group.entries, [](const Slot& s) { return s.param.requires_grad(); })) {
    warn(name_, ": no parameter of group ", groups_.size(),
         " requires grad, so no step will change them");
  }
  groups_.push_back(std::move(group));
}

/// throws: ValueError "<optimiser>: <name> must be …, got …".
void Optimizer::check(const HyperParameters& hyper) const {
  for (const auto& [name, value, range] : hyper) {
    const bool finite = std::isfinite(value);
    LATHE_CHECK(ValueError, range != Range::kNotNegative || (finite && value >= 0), name_, ": ",
                name, " must be finite and not negative, got ", value);
    LATHE_CHECK(ValueError, range != Range::kBelowOne || (value >= 0 && value < 1), name_, ": ",
                name, " must be in [0,1), got ", value);
    LATHE_CHECK(ValueError, range != Range::kFinite || finite, name_, ": ", name,
                " must be finite, got ", value);
    LATHE_CHECK(ValueError, range != Range::kSwitch || value == 0 || value == 1, name_, ": ", name,
                " must be 0 or 1, got ", value);
  }
  check_together(hyper);
}

void Optimizer::set_half_copies() const {
  if (measures_norms()) return;
  for (const Tensor& p : params()) amp::keep_half_copy(p);
}

const Optimizer::Group& Optimizer::group_at(size_t group) const {
  LATHE_CHECK(IndexError, group < groups_.size(), name_, ": no group ", group, " among ",
              groups_.size());
  return groups_[group];
}

Tensors Optimizer::params(size_t group) const {
  Tensors out;
  for (const Slot& slot : group_at(group).entries) out.push_back(slot.param);
  return out;
}

Tensors Optimizer::params() const {
  Tensors out;
  for (const Group& group : groups_) {
    for (const Slot& slot : group.entries) out.push_back(slot.param);
  }
  return out;
}

bool Optimizer::has_master_weights(const Tensor& param) const {
  const bool is_half = param.dtype() == kF16 || param.dtype() == kBF16;
  return is_half && std::ranges::any_of(groups_, [&](const Group& group) {
           return group.master_weights && std::ranges::any_of(group.entries, [&](const Slot& slot) {
                    return slot.param.is_same(param);
                  });
         });
}

double Optimizer::lr(size_t group) const { return group_at(group).hyper("lr"); }
double Optimizer::initial_lr(size_t group) const { return group_at(group).initial_lr; }
double Optimizer::hyper_parameter(std::string_view name, size_t group) const {
  return group_at(group).hyper(name);
}

/// If the rate lives on a GPU too, work queued there before this call still reads the old rate.
void Optimizer::set_hyper(Group& group, HyperParameters hyper) {
  const double lr = hyper("lr");
  // The device first: if that throws, the host still holds the rate that the device has.
  if (group.rate.defined() && lr != group.hyper("lr")) fill_values(group.rate, lr);
  group.hyper = std::move(hyper);
}

void Optimizer::set_lr(size_t group, double lr) {
  HyperParameters hyper = group_at(group).hyper;
  hyper.front().value = lr;
  check(hyper);
  set_hyper(groups_[group], std::move(hyper));
}

void Optimizer::set_lr(double lr) { set_lrs(std::vector<double>(groups_.size(), lr)); }

void Optimizer::set_lrs(const std::vector<double>& rates) {
  LATHE_CHECK(ValueError, rates.size() == groups_.size(), name_, ": ", rates.size(),
              " learning rates for ", groups_.size(), " groups");
  std::vector<HyperParameters> hypers;
  for (size_t g = 0; g < groups_.size(); ++g) {
    hypers.push_back(groups_[g].hyper);
    hypers.back().front().value = rates[g];
    check(hypers.back());
  }
  for (size_t g = 0; g < groups_.size(); ++g) set_hyper(groups_[g], std::move(hypers[g]));
}

void Optimizer::zero_grad(ZeroGradOptions options) const {
  const profile::OpRange range("zero_grad");
  for (const Tensor& p : params()) {
    if (!amp::arrived_grad(p).defined()) continue;
    if (options.set_to_none) {
      p.set_grad({});
      continue;
    }
    const Tensor grad = p.grad();
    if (has_overlap(grad)) {  // an expanded gradient has no memory of its own to write to
      const Tensor zeros = empty_like(p);
      fill_values(zeros, 0);
      p.set_grad(zeros);
    } else {
      fill_values(grad, 0);
      grad.bump_version();
    }
  }
}

}  // namespace lathe::optim
