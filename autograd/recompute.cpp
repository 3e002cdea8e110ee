// Recomputations, their users, and the values of a backward pass. Contracts: recompute.h.
#include "lathe/autograd/recompute.h"

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/autograd/meta.h"
#include "lathe/autograd/saved.h"
#include "lathe/core/hooks/memory_tag.h"

namespace lathe {
namespace autograd {

class Recomputation {
 public:
  Recomputation(int steps_, std::function<Tensor()> compute_)
      : steps(steps_), compute(std::move(compute_)) {}

  const int steps;
  const std::function<Tensor()> compute;
  std::atomic<int> users = 0;
};

namespace {

using Value = RecomputedValues::Value;

constinit thread_local bool t_on = false;
constinit thread_local bool t_computing = false;  // a recomputation, which may need other results
constinit thread_local bool t_making = false;     // a recomputation, which keeps what it needs
constinit thread_local RecomputedValues::List* t_values = nullptr;

Value* find_value(const RecomputationPtr& recomputation) noexcept {
  if (t_values == nullptr) return nullptr;
  const auto at = std::ranges::find(*t_values, recomputation, &Value::recomputation);
  return at == t_values->end() ? nullptr : &*at;
}

/// Gives back what this thread's pass has of a recomputation, unless one of its users has not got
/// it yet.
void drop_if_given(const RecomputationPtr& recomputation) noexcept {
  Value* const value = find_value(recomputation);
  if (value == nullptr || static_cast<int>(value->given_to.size()) < recomputation->users) return;
  const Value gone = std::move(*value);  // goes when the list is whole again
  t_values->erase(t_values->begin() + (value - t_values->data()));
}

/// One that saved the result: an op, which is a user, or another recomputation, which is none. That
/// one is asked while its own users are, and nobody waits for it.
class RecomputationUse {
 public:
  explicit RecomputationUse(RecomputationPtr recomputation)
      : recomputation_(std::move(recomputation)), is_user_(!t_making) {
    recomputation_->users += is_user_;
  }
  ~RecomputationUse() {
    recomputation_->users -= is_user_;
    if (Value* const value = find_value(recomputation_)) std::erase(value->given_to, this);
    drop_if_given(recomputation_);
  }
  RecomputationUse(const RecomputationUse&) = delete;
  RecomputationUse& operator=(const RecomputationUse&) = delete;

  /// What another result needs on the way is not kept for others.
  Tensor get() const {
    Value* value = find_value(recomputation_);
    if (value == nullptr) {
      const Tensor tensor = compute();
      if (!is_user_ || t_values == nullptr || recomputation_->users == 1) return tensor;
      t_values->push_back({recomputation_, tensor, {this}});
      return tensor;
    }
    const Tensor tensor = value->tensor;
    if (is_user_ && std::ranges::find(value->given_to, this) == value->given_to.end()) {
      value->given_to.push_back(this);
      drop_if_given(recomputation_);
    }
    return tensor;
  }

 private:
  Tensor compute() const {
    const struct Computing {
      bool before = std::exchange(t_computing, true);
      ~Computing() { t_computing = before; }
    } computing;
    const profile::MemoryTagScope activations(profile::MemoryTag::kActivations);
    return recomputation_->compute();
  }

  const RecomputationPtr recomputation_;
  const bool is_user_;
};

RecomputationPtr recomputation_of(const Tensor& t) {
  const Meta* const meta = t.defined() ? t.impl().meta : nullptr;
  if (meta == nullptr) return nullptr;
  const MadeBy& made = meta->made_by;
  const bool same = made.storage == t.impl().storage.get() && made.version == t.version();
  return same ? made.recomputation.lock() : nullptr;
}

}  // namespace

bool recomputes() noexcept { return t_on && grad_enabled() && !packs_saved(); }

int recompute_steps(const Tensor& t) {
  const RecomputationPtr recomputation = recomputation_of(t);
  return recomputation == nullptr ? 0 : recomputation->steps;
}

bool computes_again() noexcept { return t_computing; }

RecomputationPtr make_recomputation(int steps,
                                    FunctionRef<std::function<Tensor()>()> make_compute) {
  const struct Making {
    bool before = std::exchange(t_making, true);
    ~Making() { t_making = before; }
  } making;
  return std::make_shared<Recomputation>(steps, make_compute());
}

void set_recomputation(const Tensor& y, const RecomputationPtr& recomputation) {
  meta_of(y).made_by = {recomputation, y.impl().storage.get(), y.version()};
}

std::function<Tensor()> use_recomputation(const Tensor& t) {
  const RecomputationPtr recomputation = recomputation_of(t);
  if (recomputation == nullptr) return {};
  return [use = std::make_shared<RecomputationUse>(recomputation)] { return use->get(); };
}

RecomputedValues::RecomputedValues() noexcept : before_(std::exchange(t_values, &list_)) {}
RecomputedValues::~RecomputedValues() { t_values = before_; }

}  // namespace autograd

Recompute::Recompute(bool on) noexcept : before_(std::exchange(autograd::t_on, on)) {}
Recompute::~Recompute() { autograd::t_on = before_; }

}  // namespace lathe
