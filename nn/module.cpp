// Module: registration of parameters, buffers and children, calls with hooks, walks over the tree,
// and moves between devices, dtypes and memory formats. module_state.cpp has state_dict().
#include "lathe/nn/module.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <optional>
#include <typeinfo>
#include <unordered_set>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/hooks/memory_tag.h"
#include "lathe/core/hooks/watch.h"
#include "lathe/core/log.h"
#include "lathe/core/type_name.h"
#include "lathe/nn/lora_layer.h"
#include "lathe/ops/cast.h"

namespace lathe::nn {

namespace {
void note_weights(const Tensor& t) { t.impl().storage->set_tag(profile::MemoryTag::kWeights); }
}  // namespace

void Module::leave_parent() noexcept {
  if (parent_ == nullptr) return;
  std::erase_if(parent_->children_, [this](const auto& child) { return child.second == this; });
  parent_ = nullptr;
}

Module::~Module() {
  leave_parent();
  for (auto& [name, child] : children_) child->parent_ = nullptr;
  if (self_ != nullptr) *self_ = nullptr;
}

Module::Module(Module&& other) noexcept { *this = std::move(other); }

// The members of a module that is moved as a whole come after it, one by one: each has lost its
// parent here, and takes the place of the member that it is made from.
Module& Module::operator=(Module&& other) noexcept {
  if (this == &other) return *this;
  for (auto& [name, child] : children_) child->parent_ = nullptr;
  parameters_ = std::move(other.parameters_);
  buffers_ = std::move(other.buffers_);
  children_ = std::move(other.children_);
  other.children_.clear();
  for (auto& [name, child] : children_) child->parent_ = this;
  training_ = other.training_;
  hooks_ = std::move(other.hooks_);
  if (self_ != nullptr) *self_ = nullptr;  // the Parameters take their places from other's
  self_ = std::move(other.self_);
  if (self_ != nullptr) *self_ = this;

  Module* const place = std::exchange(other.parent_, nullptr);
  if (place == nullptr) return *this;
  const auto is_other = [&other](const auto& child) { return child.second == &other; };
  if (parent_ != nullptr) {
    std::erase_if(place->children_, is_other);
  } else {
    parent_ = place;
    std::ranges::find_if(place->children_, is_other)->second = this;
  }
  return *this;
}

void Module::check_name(const std::string& name) const {
  LATHE_CHECK(ValueError, !name.empty() && name.find('.') == std::string::npos, type_name(),
              ": a name must not be empty nor hold a dot, got \"", name, "\"");
  const auto is_it = [&](const auto& entry) { return entry.first == name; };
  const bool taken = std::ranges::any_of(parameters_, is_it) ||
                     std::ranges::any_of(buffers_, is_it) || std::ranges::any_of(children_, is_it);
  LATHE_CHECK(ValueError, !taken, type_name(), ": the name \"", name, "\" is taken");
}

Parameter Module::parameter(const std::string& name, const Tensor& value) {
  check_name(name);
  LATHE_CHECK(ValueError, value.defined(), type_name(), ": parameter \"", name, "\" is undefined");
  value.requires_grad_();
  note_weights(value);
  if (self_ == nullptr) self_ = std::make_shared<Module*>(this);
  parameters_.emplace_back(name, value);
  return Parameter(self_, name, value);
}

void Module::replace_parameter(const std::string& name, const Tensor& value) {
  LATHE_CHECK(ValueError, value.defined(), type_name(), ": parameter \"", name,
              "\" cannot become undefined");
  if (!value.requires_grad()) value.requires_grad_();
  LATHE_CHECK(StateError, value.is_leaf(), type_name(), ": parameter \"", name,
              "\" cannot be the result of an op (", value, "); detach() it");
  put_parameter(name, value);
}

void Module::put_parameter(const std::string& name, const Tensor& value) {
  const auto entry = std::ranges::find(parameters_, name, &std::pair<std::string, Tensor>::first);
  entry->second = value;
  note_weights(value);
}

Tensor Module::buffer(const std::string& name, const Tensor& value) {
  check_name(name);
  LATHE_CHECK(ValueError, value.defined(), type_name(), ": buffer \"", name, "\" is undefined");
  buffers_.emplace_back(name, value);
  note_weights(value);
  return value;
}

void Module::join(Module& parent, const std::string& name) {
  parent.check_name(name);
  LATHE_CHECK(StateError, parent_ == nullptr, type_name(), ": is ", path(),
              " already and cannot be \"", name, "\" of a ", parent.type_name(), ", too");
  for (const Module* above = &parent; above != nullptr; above = above->parent_) {
    LATHE_CHECK(StateError, above != this, type_name(), ": cannot be a child of itself");
  }
  parent.children_.emplace_back(name, this);
  parent_ = &parent;
}

void Module::take(Module& child, const std::string& name) {
  check_name(name);
  child.leave_parent();
  adopt(child, name);
}

void Module::exchange_child(Module& old, Module& fresh) {
  if (old.parent_ != this) return;  // `fresh` was made from `old`, and has its place
  fresh.leave_parent();
  const auto is_old = [&old](const auto& child) { return child.second == &old; };
  std::ranges::find_if(children_, is_old)->second = &fresh;
  fresh.parent_ = this;
  old.parent_ = nullptr;
}

std::string Module::type_name() const { return lathe::type_name(typeid(*this)); }

std::string Module::path() const {
  if (parent_ == nullptr) return type_name();
  const auto is_this = [this](const auto& child) { return child.second == this; };
  const auto entry = std::ranges::find_if(parent_->children_, is_this);
  return concat(parent_->path(), ".", entry->first);
}

std::optional<LoraLayer> Module::lora_layer() const { return {}; }

bool Module::has_running_statistics() const {
  return std::ranges::any_of(buffers_,
                             [](const auto& buffer) { return buffer.first == "running_mean"; });
}

DType Module::dtype_for(DType asked, const Tensor&) const { return asked; }

// --- calling -------------------------------------------------------------------------------------

Tensor Module::forward(const Tensor& x) {
  LATHE_FAIL(StateError, type_name(), ": has no forward of one tensor (x: ", x, ")");
}

int64_t Module::macs(const Shape&, const Shape&) const { return 0; }

int64_t Module::macs_of_call(const Tensors& inputs, const Tensors& outputs) const {
  if (inputs.empty() || outputs.empty()) return 0;
  return macs(inputs[0].shape(), outputs[0].shape());
}

Tensor Module::operator()(const Tensor& x) {
  return with_hooks(x, [this](const Tensor& in) { return forward(in); });
}

namespace {

/// The module whose forward() runs on this thread; null outside of any.
thread_local const Module* running = nullptr;

class RunningScope {
 public:
  explicit RunningScope(const Module& module) : before_(std::exchange(running, &module)) {}
  ~RunningScope() { running = before_; }
  RunningScope(const RunningScope&) = delete;
  RunningScope& operator=(const RunningScope&) = delete;

 private:
  const Module* before_;
};

void warn_of_nobodys_child(const Module& module) {
  const std::string outer = running->type_name(), inner = module.type_name();
  warn_once(concat("module without a parent: ", outer, " ", inner),
            concat(outer, " calls a ", inner, " that was not registered with any module: its ",
                   "parameters are not trained, saved or moved with ", outer,
                   "'s. Give it a parent "
                   "and a name: ",
                   inner, " layer{*this, \"layer\", …}"));
}

}  // namespace

void Module::call(FunctionRef<void()> f) {
  if (parent_ == nullptr && running != nullptr && !(parameters_.empty() && children_.empty())) {
    warn_of_nobodys_child(*this);
  }
  profile::raise_found();  // of an op before this layer, which must not be blamed for it
  const RunningScope scope(*this);
  std::optional<profile::Layer> watched;
  if (profile::watched()) [[unlikely]]
    watched.emplace(path());
  try {
    f();
  } catch (Error& error) {
    try {
      error.set_origin(path());
    } catch (const std::bad_alloc&) {  // the error itself matters more
    }
    throw;
  }
}

Tensor Module::with_hooks(const Tensor& x, FunctionRef<Tensor(const Tensor&)> f) {
  Tensor y;
  call([&] { y = hooks_.empty() ? f(x) : between_hooks(x, f); });
  return y;
}

Tensors Module::with_call_hooks(const Tensors& inputs, FunctionRef<Tensors()> f) {
  Tensors out;
  call([&] {
    out = f();
    if (has_hooks()) run_call_hooks(inputs, out);
  });
  return out;
}

Tensor Module::between_hooks(const Tensor& x, FunctionRef<Tensor(const Tensor&)> f) {
  const std::vector<Hook> hooks = hooks_;  // a hook may remove itself
  Tensor in = x;
  for (const Hook& hook : hooks) {
    if (!hook.before) continue;
    if (Tensor other = hook.before(*this, in); other.defined()) in = std::move(other);
  }
  const Tensor out = run_forward_hooks(in, f(in));
  run_call_hooks({in}, {out});
  return out;
}

Tensor Module::run_forward_hooks(const Tensor& x, const Tensor& y) {
  const std::vector<Hook> hooks = hooks_;
  Tensor out = y;
  for (const Hook& hook : hooks) {
    if (!hook.after) continue;
    if (Tensor other = hook.after(*this, x, out); other.defined()) out = std::move(other);
  }
  return out;
}

void Module::run_call_hooks(const Tensors& inputs, const Tensors& outputs) {
  const std::vector<Hook> hooks = hooks_;
  for (const Hook& hook : hooks) {
    if (hook.observer) hook.observer(*this, inputs, outputs);
  }
}

namespace {
int64_t next_hook_number() {
  static std::atomic<int64_t> counter{0};
  return ++counter;
}
}  // namespace

int64_t Module::add_hook(Hook hook) {
  LATHE_CHECK(
      StateError, is_called(), type_name(), ": \"", path(),
      "\" only holds tensors, so no hook of it would run; register the hook with the model");
  const bool fits = hook.observer || (hook.after ? takes_forward_hooks() : takes_one_tensor());
  LATHE_CHECK(StateError, fits, type_name(),
              ": forward() is not a function of one tensor; use register_call_hook()");
  hooks_.push_back(std::move(hook));
  return hooks_.back().number;
}

int64_t Module::register_forward_pre_hook(ForwardPreHook hook) {
  return add_hook({next_hook_number(), std::move(hook), nullptr, nullptr});
}

int64_t Module::register_forward_hook(ForwardHook hook) {
  return add_hook({next_hook_number(), nullptr, std::move(hook), nullptr});
}

int64_t Module::register_call_hook(CallHook hook) {
  return add_hook({next_hook_number(), nullptr, nullptr, std::move(hook)});
}

void Module::remove_hook(int64_t number) {
  std::erase_if(hooks_, [number](const Hook& hook) { return hook.number == number; });
}

// --- the tree ------------------------------------------------------------------------------------

void Module::for_each_module(const std::string& prefix,
                             FunctionRef<void(const std::string&, Module&)> f) const {
  f(prefix, const_cast<Module&>(*this));
  for (const auto& [name, child] : children_) child->for_each_module(prefix + name + ".", f);
}

Module::Named<Tensor> Module::named_parameters() const {
  Named<Tensor> out;
  std::unordered_set<const TensorImpl*> known;
  for_each_module("", [&](const std::string& prefix, const Module& module) {
    for (const auto& [name, p] : module.parameters_) {
      if (known.insert(p.handle().get()).second) out.emplace_back(prefix + name, p);
    }
  });
  return out;
}

Tensors Module::parameters() const {
  Tensors out;
  for (auto& [name, p] : named_parameters()) out.push_back(p);
  return out;
}

Module::Named<Tensor> Module::named_buffers() const {
  Named<Tensor> out;
  for_each_module("", [&](const std::string& prefix, const Module& module) {
    for (const auto& [name, b] : module.buffers_) out.emplace_back(prefix + name, b);
  });
  return out;
}

std::vector<Module*> Module::children() const {
  std::vector<Module*> out;
  for (const auto& [name, child] : children_) out.push_back(child);
  return out;
}

Module::Named<Module*> Module::named_modules() {
  Named<Module*> out;
  for_each_module("", [&](const std::string& prefix, Module& module) {
    out.emplace_back(prefix.empty() ? "" : prefix.substr(0, prefix.size() - 1), &module);
  });
  return out;
}

// --- changes of everything -----------------------------------------------------------------------

Module& Module::train(bool on) {
  return apply([on](Module& module) { module.training_ = on; });
}

Module& Module::apply(FunctionRef<void(Module&)> f) {
  for (auto& [name, child] : children_) child->apply(f);
  f(*this);
  return *this;
}

void Module::zero_grad() {
  for (const Tensor& p : parameters()) p.set_grad({});
}

/// Every parameter and buffer becomes f of it. All new tensors are made, and the old ones found fit
/// for set_data, before the first is put in place.
void Module::replace_all(FunctionRef<Tensor(Module&, const Tensor&)> f) {
  const NoGrad off;
  std::vector<std::pair<Tensor, Tensor>> changes;
  std::unordered_set<const TensorImpl*> known;  // shared ones are changed once
  for_each_module("", [&](const std::string& prefix, Module& module) {
    for (const auto* list : {&module.parameters_, &module.buffers_}) {
      for (const auto& [name, t] : *list) {
        if (!known.insert(t.handle().get()).second) continue;
        Tensor value = f(module, t);
        if (value.is_same(t)) continue;
        LATHE_CHECK(StateError, !t.impl().base && t.is_leaf(), "to: ", prefix, name,
                    " is a view or the "
                    "result of an op and cannot take other data (",
                    t, ")");
        changes.emplace_back(t, std::move(value));
      }
    }
  });
  for (const auto& [t, value] : changes) {
    t.set_data(value);
    note_weights(t);
  }
}

Module& Module::to(Device device) {
  replace_all([device](Module&, const Tensor& t) { return to_device(t, device); });
  return *this;
}

Module& Module::to(DType dtype) {
  LATHE_CHECK(DTypeError, is_floating(dtype), type_name(), ": parameters must be floating, got ",
              dtype);
  replace_all([dtype](Module& module, const Tensor& t) {
    return is_floating(t.dtype()) ? cast(t, module.dtype_for(dtype, t)) : t;
  });
  return *this;
}

Module& Module::to(MemoryFormat format) {
  replace_all([format](Module&, const Tensor& t) {
    // A filter of 1x1 lies in both orders at once.
    return t.ndim() == 4 && !t.is_contiguous(format) ? contiguous(t, format) : t;
  });
  return *this;
}

}  // namespace lathe::nn
