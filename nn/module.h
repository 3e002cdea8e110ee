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
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/function_ref.h"
#include "lathe/core/state_dict.h"
#include "lathe/core/tensor.h"
#include "lathe/nn/parameter.h"

namespace lathe::nn {

struct LoraLayer;

struct LoadOptions {
  bool strict = true;  // false: missing and unexpected entries are reported, not thrown
};

struct LoadReport {
  std::vector<std::string> missing, unexpected;
};

/// A module cannot be copied. A move takes parameters, children and hooks along, and the parent
/// then refers to the new object. References and lambda captures still refer to the old object.
/// Because modules can be moved, layers can be written as temporaries (nn::Sequential) and be
/// replaced:
///   model.fc = nn::Linear(512, 37);  // another head, before an optimiser takes the parameters
/// Do not std::swap two layers of a model: a move takes the name along, so their names are swapped,
/// too.
class LATHE_API Module {
 public:
  template <class T>
  using Named = std::vector<std::pair<std::string, T>>;
  /// A ForwardPreHook runs before forward() and gets the input x. A ForwardHook runs after
  /// forward() and gets the input x and the output y. If a hook returns a defined tensor, that
  /// tensor replaces the input (ForwardPreHook) or the output (ForwardHook).
  using ForwardPreHook = std::function<Tensor(Module&, const Tensor& x)>;
  using ForwardHook = std::function<Tensor(Module&, const Tensor& x, const Tensor& y)>;
  /// A CallHook runs after a call and sees all tensors in its arguments and its result. It suits a
  /// forward() of any signature (nn/module_of.h).
  using CallHook = std::function<void(Module&, const Tensors& inputs, const Tensors& outputs)>;

  Module() = default;
  /// Registers this module as the child `name` of `parent`. A struct of your own with `using
  /// Module::Module;` can be a member of a model like any layer.
  /// throws: ValueError for a name that is taken or empty or contains a dot.
  Module(Module& parent, const std::string& name) { join(parent, name); }
  virtual ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  /// Runs the pre-hooks, then forward(), then the hooks. Warns once if another module's forward()
  /// calls a module without a parent, since no model trains, saves or moves that module's
  /// parameters.
  /// throws: what forward() throws. The message of an Error begins with the path() of the innermost
  /// module whose call failed.
  Tensor operator()(const Tensor& x);

  // --- what it holds: own entries first, then the children's, in the order of registration -------
  /// A parameter that several modules share is listed once.
  Named<Tensor> named_parameters() const;
  Tensors parameters() const;
  Named<Tensor> named_buffers() const;
  Named<Module*> named_children() const { return children_; }
  std::vector<Module*> children() const;
  /// This module, named "", and all modules below it, parents first.
  Named<Module*> named_modules();
  /// The name of the class without namespaces: "Conv2d".
  std::string type_name() const;
  /// The names from the root to this module: "ResNet.layer1.0.conv1", where ResNet is the root's
  /// type_name().
  std::string path() const;

  // --- state -------------------------------------------------------------------------------------
  /// Parameters and buffers. The tensors share memory with the module; clone() the result to keep
  /// the present values. A parameter that several modules share is one entry, under its first name.
  StateDict state_dict() const;
  /// Copies values into the module's tensors, whose dtype, device and layout stay. So an optimiser
  /// that refers to these tensors sees the new values. `state` may hold this module's own tensors,
  /// also under other names. A shared parameter is read from the first of its names that the state
  /// has.
  /// → without `strict`: the names of missing and unexpected entries
  /// throws: ValueError listing every entry that is missing, unexpected or of another shape.
  /// Nothing has changed then.
  LoadReport load_state_dict(const StateDict& state, const LoadOptions& options = {});

  // --- changes of everything below, in place; all return *this -----------------------------------
  /// Sets training mode (`on`) or evaluation mode, which batch norm, dropout and others follow.
  Module& train(bool on = true);
  Module& eval() { return train(false); }
  bool is_training() const { return training_; }
  /// Moves parameters and buffers to a device. Drops the gradients of the parameters that move.
  /// throws: NoCudaError without a GPU; StateError if a tensor to be moved is a view or the result
  /// of an op. Nothing has moved then.
  Module& to(Device device);
  /// Converts floating parameters and buffers, and drops the gradients of the converted ones. Batch
  /// norms become f32 if `dtype` is a half type.
  /// throws: DTypeError unless `dtype` is floating; StateError if a tensor to be converted is a
  /// view or the result of an op. Nothing has changed then.
  Module& to(DType dtype);
  /// throws: as to(Device), then as to(DType).
  Module& to(Device device, DType dtype) { return to(device).to(dtype); }
  Module& half() { return to(kF16); }
  /// Rearranges the memory of 4-d parameters and buffers, usually convolution weights. With
  /// kChannelsLast an NHWC convolution on a GPU reads them without a copy. Shapes, values and
  /// checkpoints stay the same.
  /// throws: StateError if a tensor to be moved is a view or the result of an op. Nothing has moved
  /// then.
  Module& to(MemoryFormat format);
  /// Calls f for every module, children before their parent.
  Module& apply(FunctionRef<void(Module&)> f);
  /// Drops all gradients.
  void zero_grad();

  // --- hooks -------------------------------------------------------------------------------------
  /// → a number for remove_hook
  /// throws: StateError if this module's forward() has another signature than Tensor(const
  /// Tensor&). Such a module takes a CallHook.
  int64_t register_forward_pre_hook(ForwardPreHook hook);
  int64_t register_forward_hook(ForwardHook hook);
  /// A CallHook runs after the other hooks.   → a number for remove_hook
  /// throws: StateError unless is_called().
  int64_t register_call_hook(CallHook hook);
  void remove_hook(int64_t number);

  // --- for those who write modules ---------------------------------------------------------------
  /// What the module computes.
  /// throws: StateError in a module that does not define it.
  virtual Tensor forward(const Tensor& x);
  /// The multiply-adds of one forward(), without those of the children. The default is 0.
  virtual int64_t macs(const Shape& x, const Shape& y) const;
  /// The number of multiply-adds of a call, computed from all tensors that go into it and come out
  /// of it. The default is macs() of the first input and the first output, or 0 if one of the two
  /// is missing. Override macs_of_call() if these two do not determine the number.
  virtual int64_t macs_of_call(const Tensors& inputs, const Tensors& outputs) const;
  /// For layers that take an adapter of LoRA (lora_layer.h). The default is nullopt.
  virtual std::optional<LoraLayer> lora_layer() const;
  /// True if the module holds running statistics that training changes, as a batch norm does. By
  /// default true if the module itself has a buffer "running_mean".
  virtual bool has_running_statistics() const;
  /// False for a module that only holds tensors: another module computes with the tensors, so no
  /// hook of this module could run.
  virtual bool is_called() const { return true; }

 protected:
  // Moves are not public, because through a Module& only the base class would move.
  /// The new module takes over the name and the parent of `other`.
  Module(Module&& other) noexcept;
  /// Moves the contents of `other`, with device, dtype and training mode, into this module. This
  /// module keeps its name and parent; if it has no parent, it takes over those of `other`. `other`
  /// must not hold this module.
  Module& operator=(Module&& other) noexcept;

  /// Registers `value` as a parameter: a leaf that requires grad. Keep the result in a member of
  /// type Parameter: the module would not see later assignments to a member of type Tensor.
  /// throws: ValueError for a name that is taken or empty or contains a dot, or for an undefined
  /// tensor; DTypeError unless floating.
  Parameter parameter(const std::string& name, const Tensor& value);
  /// Registers `value` as a buffer: state that is saved but not trained.
  /// throws: ValueError as parameter().
  Tensor buffer(const std::string& name, const Tensor& value);
  /// Registers this module with `parent`. Either of the two may be destroyed first.
  /// throws: ValueError for a name that is taken or empty or contains a dot; StateError if this
  /// module has a parent, or if `parent` is this module or below it.
  void join(Module& parent, const std::string& name);
  /// Registers `child` as a child of this module. Containers call it.
  void adopt(Module& child, const std::string& name) { child.join(*this, name); }
  /// Like adopt(), but a child that has a parent leaves that parent first.
  void take(Module& child, const std::string& name);
  /// Replaces this module's child `old` by `fresh`, which gets the name of `old` and its position
  /// among the children.
  void exchange_child(Module& old, Module& fresh);
  /// throws: ValueError for a name that is taken or empty or contains a dot.
  void check_name(const std::string& name) const;
  /// Runs f(x) between the pre-hooks and the hooks. Modules that can be called in a second way
  /// (batch norm with relu) call it.
  Tensor with_hooks(const Tensor& x, FunctionRef<Tensor(const Tensor&)> f);
  /// Runs f() as a call of this module: errors get this module's path(), and a call of a module
  /// without a parent is warned about.
  void call(FunctionRef<void()> f);
  /// Runs f() as a call of this module that reads `inputs`, then the CallHooks.
  Tensors with_call_hooks(const Tensors& inputs, FunctionRef<Tensors()> f);
  bool has_hooks() const { return !hooks_.empty(); }
  void run_call_hooks(const Tensors& inputs, const Tensors& outputs);
  /// Runs the forward hooks. → y, or the tensor with which a hook replaced it
  Tensor run_forward_hooks(const Tensor& x, const Tensor& y);
  virtual bool takes_one_tensor() const { return true; }
  /// True if a forward hook can replace the module's result.
  virtual bool takes_forward_hooks() const { return takes_one_tensor(); }
  /// The dtype that to(asked) gives to `own`, a tensor of this module's own.
  virtual DType dtype_for(DType asked, const Tensor& own) const;

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
