// Recipes, their users, and the values of a backward pass. Contracts: recompute.h.
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

class Recipe {
 public:
  Recipe(int steps_, std::function<Tensor()> compute_)
      : steps(steps_), compute(std::move(compute_)) {}

  const int steps;
  const std::function<Tensor()> compute;
  std::atomic<int> users = 0;
};

namespace {

using Value = RecomputedValues::Value;

constinit thread_local bool t_on = false;
constinit thread_local bool t_computing = false;  // a recipe, which may need other results
constinit thread_local bool t_making = false;     // a recipe, which keeps what it needs
constinit thread_local RecomputedValues::List* t_values = nullptr;

Value* find_value(const RecipePtr& recipe) noexcept {
  if (t_values == nullptr) return nullptr;
  const auto at = std::ranges::find(*t_values, recipe, &Value::recipe);
  return at == t_values->end() ? nullptr : &*at;
}

/// Gives back what this thread's pass has of a recipe, unless one of its users has not got it yet.
void drop_if_given(const RecipePtr& recipe) noexcept {
  Value* const value = find_value(recipe);
  if (value == nullptr || static_cast<int>(value->given_to.size()) < recipe->users) return;
  const Value gone = std::move(*value);  // goes when the list is whole again
  t_values->erase(t_values->begin() + (value - t_values->data()));
}

/// One that saved the result: an op, which is a user, or another recipe, which is none. That one
/// is asked while its own users are, and nobody waits for it.
class RecipeUse {
 public:
  explicit RecipeUse(RecipePtr recipe) : recipe_(std::move(recipe)), is_user_(!t_making) {
    recipe_->users += is_user_;
  }
  ~RecipeUse() {
    recipe_->users -= is_user_;
    if (Value* const value = find_value(recipe_)) std::erase(value->given_to, this);
    drop_if_given(recipe_);
  }
  RecipeUse(const RecipeUse&) = delete;
  RecipeUse& operator=(const RecipeUse&) = delete;

  /// What another result needs on the way is not kept for others.
  Tensor get() const {
    Value* value = find_value(recipe_);
    if (value == nullptr) {
      const Tensor tensor = compute();
      if (!is_user_ || t_values == nullptr || recipe_->users == 1) return tensor;
      t_values->push_back({recipe_, tensor, {this}});
      return tensor;
    }
    const Tensor tensor = value->tensor;
    if (is_user_ && std::ranges::find(value->given_to, this) == value->given_to.end()) {
      value->given_to.push_back(this);
      drop_if_given(recipe_);
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
    return recipe_->compute();
  }

  const RecipePtr recipe_;
  const bool is_user_;
};

RecipePtr recipe_of(const Tensor& t) {
  const Meta* const meta = t.defined() ? t.impl().meta : nullptr;
  if (meta == nullptr) return nullptr;
  const MadeBy& made = meta->made_by;
  const bool same = made.storage == t.impl().storage.get() && made.version == t.version();
  return same ? made.recipe.lock() : nullptr;
}

}  // namespace

bool recomputes() noexcept { return t_on && grad_enabled() && !packs_saved(); }

int recompute_steps(const Tensor& t) {
  const RecipePtr recipe = recipe_of(t);
  return recipe == nullptr ? 0 : recipe->steps;
}

bool computes_again() noexcept { return t_computing; }

RecipePtr make_recipe(int steps, FunctionRef<std::function<Tensor()>()> make_compute) {
  const struct Making {
    bool before = std::exchange(t_making, true);
    ~Making() { t_making = before; }
  } making;
  return std::make_shared<Recipe>(steps, make_compute());
}

void set_recipe(const Tensor& y, const RecipePtr& recipe) {
  meta_of(y).made_by = {recipe, y.impl().storage.get(), y.version()};
}

std::function<Tensor()> use_recipe(const Tensor& t) {
  const RecipePtr recipe = recipe_of(t);
  if (recipe == nullptr) return {};
  return [use = std::make_shared<RecipeUse>(recipe)] { return use->get(); };
}

RecomputedValues::RecomputedValues() noexcept : before_(std::exchange(t_values, &list_)) {}
RecomputedValues::~RecomputedValues() { t_values = before_; }

}  // namespace autograd

Recompute::Recompute(bool on) noexcept : before_(std::exchange(autograd::t_on, on)) {}
Recompute::~Recompute() { autograd::t_on = before_; }

}  // namespace lathe
