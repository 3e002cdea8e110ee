// Module: parameters, buffers and child modules under names; the base of every layer and model.
//   struct Net : nn::Module {
//     nn::Linear fc{*this, "fc", 64, 10};  // a member registers itself with its parent
//     Tensor forward(const Tensor& x) override { return fc(x); }
//   };
// Names joined with dots are the checkpoint's keys ("layer1.0.conv1.weight"): changing one is a
// format change.
// module.cpp: the tree, calls and moves; module_state.cpp: state_dict() and load_state_dict().
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/function_ref.h"
#include "lathe/core/state_dict.h"
#include "lathe/core/tensor.h"
#include "lathe/nn/parameter.h"

namespace lathe::nn {

struct LoadOptions {
  bool strict = true;  // false: missing and unexpected entries are reported, not thrown
};

struct LoadReport {
  std::vector<std::string> missing, unexpected;
};

/// A module is never copied. One that moves takes its parameters, children and hooks along, and its
/// parent knows the new place; a reference to the old place, or a lambda that captured it, does not
/// follow. So layers can be written as temporaries (nn::Sequential) and replaced:
///   model.fc = nn::Linear(512, 37);  // another head, before an optimiser takes the parameters
/// Do not std::swap two layers of a model: a move takes the name along, so that their names change
/// places, too.
class LATHE_API Module {
 public:
  template <class T>
  using Named = std::vector<std::pair<std::string, T>>;
  /// Hooks see the input (and the output) of a call. If one returns a defined tensor, that tensor
  /// replaces the input (or the output).
  using ForwardPreHook = std::function<Tensor(Module&, const Tensor& x)>;
  using ForwardHook = std::function<Tensor(Module&, const Tensor& x, const Tensor& y)>;
  /// Sees the tensors among the arguments and in the result of a call, for forward() of any
  /// signature (nn/module_of.h).
  using CallHook = std::function<void(Module&, const Tensors& inputs, const Tensors& outputs)>;

  Module() = default;
  /// Registers this module as the child `name` of `parent`. With `using Module::Module;` a struct
  /// can be a member like any layer.
  /// throws: ValueError for a name that is taken or empty or contains a dot.
  Module(Module& parent, const std::string& name) { join(parent, name); }
  virtual ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Runs the pre-hooks, then forward(), then the hooks. A module without a parent that another
  /// one's forward() calls is warned about once: no model trains, saves or moves its parameters.
  /// throws: what forward() throws; the message of an Error begins with the path() of the innermost
  /// module that it left.
  Tensor operator()(const Tensor& x);

  // --- what it holds: own entries first, then the children's, in the order of registration -------
  /// A parameter that several modules share is listed once.
  Named<Tensor> named_parameters() const;
  Tensors parameters() const;
  Named<Tensor> named_buffers() const;
  Named<Module*> named_children() const { return children_; }
  std::vector<Module*> children() const;
  /// This module ("") and all below it, parents first.
  Named<Module*> named_modules();
  /// The class, without namespaces: "Conv2d".
  std::string type_name() const;
  /// The way from the root: "ResNet.layer1.0.conv1", where ResNet is the root's type_name().
  std::string path() const;

  // --- state -------------------------------------------------------------------------------------
  /// Parameters and buffers. The tensors share their values with the module; clone() the result to
  /// keep them. A parameter that several modules share is one entry, under its first name.
  StateDict state_dict() const;
  /// Copies values into the existing tensors, so that an optimiser sees them; dtype, device and
  /// layout stay. All or nothing. The state may hold tensors of this very module, under any names.
  /// A shared parameter is read from the first of its names that the state has.
  /// → without `strict`: what was missing and unexpected
  /// throws: ValueError listing every missing, unexpected or mis-shaped entry.
  LoadReport load_state_dict(const StateDict& state, const LoadOptions& options = {});

  // --- changes of everything below, in place; all return *this -----------------------------------
  /// Training or evaluation behaviour of batch norm, dropout, ….
  Module& train(bool on = true);
  Module& eval() { return train(false); }
  bool is_training() const { return training_; }
  /// Moves parameters and buffers. Drops gradients that no longer fit.
  /// throws: NoCudaError; StateError if a tensor to be moved is a view or the result of an op.
  /// Nothing has moved then.
  Module& to(Device device);
  /// Converts floating parameters and buffers; batch norms stay f32 where a half type is asked for.
  /// throws: DTypeError unless floating; StateError as above.
  Module& to(DType dtype);
  Module& half() { return to(kF16); }
  /// Rearranges the memory of 4-d parameters and buffers; in practice these are filters. With
  /// kChannelsLast an NHWC convolution on a GPU reads them without a copy. Shapes, values and
  /// checkpoints stay the same.
  /// throws: StateError as above.
  Module& to(MemoryFormat format);
  /// Calls f for every module, children before their parent.
  Module& apply(FunctionRef<void(Module&)> f);
  /// Drops all gradients.
  void zero_grad();

  // --- hooks -------------------------------------------------------------------------------------
  /// → a number for remove_hook.
  /// throws: StateError in a module whose forward() is not of one tensor. CallHook suits all.
  int64_t register_forward_pre_hook(ForwardPreHook hook);
  int64_t register_forward_hook(ForwardHook hook);
  /// Runs after the others.
  int64_t register_call_hook(CallHook hook);
  void remove_hook(int64_t number);

  // --- for those who write modules ---------------------------------------------------------------
  /// What the module computes.
  /// throws: StateError in a module that does not define it.
  virtual Tensor forward(const Tensor& x);
  /// Multiply-adds of one forward() without those of the children; 0 unless overridden.
  virtual int64_t macs(const Shape& x, const Shape& y) const;
  /// The same where more than the first input and the first output decide it: of the tensors that a
  /// CallHook sees. Unless overridden, macs() of the first ones, or 0 without any.
  virtual int64_t macs_of_call(const Tensors& inputs, const Tensors& outputs) const;

 protected:
  // For the moves of modules; not public, because through a Module& only this part would move.
  /// The new module stands where `other` stood: under the same name, with the same parent.
  Module(Module&& other) noexcept;
  /// Puts other's contents into this module, which keeps its own name and parent if it has one.
  /// Device, dtype and training mode are those of `other`, which must not hold this module.
  Module& operator=(Module&& other) noexcept;

  /// Registers a parameter: a leaf that requires grad. Keep the result in a member of type
  /// Parameter. If the member is a Tensor, the module does not see what is assigned to it later.
  /// throws: ValueError for a bad name (as above) or an undefined tensor; DTypeError unless
  /// floating.
  Parameter parameter(const std::string& name, const Tensor& value);
  /// Registers state that is saved but not trained.
  Tensor buffer(const std::string& name, const Tensor& value);
  /// Registers this module with `parent`. Either of the two may be destroyed first.
  /// throws: ValueError for a bad name; StateError if it has a parent, or is above `parent` itself.
  void join(Module& parent, const std::string& name);
  /// Registers `child` as this module's own, for containers.
  void adopt(Module& child, const std::string& name) { child.join(*this, name); }
  /// The same, but a child that has a parent leaves it.
  void take(Module& child, const std::string& name);
  /// `fresh` takes the place and the name of this module's child `old`.
  void exchange_child(Module& old, Module& fresh);
  /// throws: ValueError for a name that is taken or empty or contains a dot.
  void check_name(const std::string& name) const;
  /// f(x) between the hooks, for modules that can be called in a second way (batch norm with relu).
  Tensor with_hooks(const Tensor& x, FunctionRef<Tensor(const Tensor&)> f);
  /// f() as a call of this module: errors get its path(), and unregistered layers are noticed.
  void call(FunctionRef<void()> f);
  bool has_hooks() const { return !hooks_.empty(); }
  void run_call_hooks(const Tensors& inputs, const Tensors& outputs);
  virtual bool takes_one_tensor() const { return true; }
  /// The dtype that this module's own tensors take when `asked` is asked for.
  virtual DType dtype_for(DType asked) const { return asked; }

 private:
  friend Parameter;
  /// The further names of entries that have several, each with the first one.
  Named<std::string> shared_names() const;
  void replace_parameter(const std::string& name, const Tensor& value);
  void put_parameter(const std::string& name, const Tensor& value);
  void leave_parent() noexcept;
  Tensor between_hooks(const Tensor& x, FunctionRef<Tensor(const Tensor&)> f);
  void for_each_module(const std::string& prefix,
                       FunctionRef<void(const std::string&, Module&)> f) const;
  void replace_all(FunctionRef<Tensor(Module&, const Tensor&)> f);

  struct Hook {  // one of the three functions is set
    int64_t number;
    ForwardPreHook before;
    ForwardHook after;
    CallHook observer;
  };
  int64_t add_hook(Hook hook);

  Named<Tensor> parameters_, buffers_;
  Named<Module*> children_;
  Module* parent_ = nullptr;
  std::shared_ptr<Module*> self_;  // what the Parameters know of this module: where it is now
  bool training_ = true;
  std::vector<Hook> hooks_;
};

}  // namespace lathe::nn
