// Modules made of names, for models that come from files: "layer1.0.bn1.weight" is the parameter
// "weight" of a module "bn1" in "0" in "layer1". Internal: program.h and graph_module.h are what
// others use.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_set>

#include "lathe/nn/lora_layer.h"
#include "lathe/nn/module.h"

namespace lathe::jit {

class ModuleTree;

/// A module of a file's model: its tensors, its name and its mode. The model's graph runs, not this
/// module's forward(): the module has CallHooks if is_called() is true, and forward hooks if
/// `is_one_to_one` is.
class Part final : public nn::Module {
 public:
  using nn::Module::buffer, nn::Module::has_hooks, nn::Module::parameter,
      nn::Module::run_call_hooks;

  Part(nn::Module& parent, const std::string& name, const ModuleTree& tree)
      : nn::Module(parent, name), tree_(tree) {}

  std::optional<nn::LoraLayer> lora_layer() const override;
  bool has_running_statistics() const override;
  bool is_called() const override;
  /// The forward hooks of a call that is one to one, with errors that name this module.
  Tensor replaced(const Tensor& x, const Tensor& y);

  bool holds_statistics = false;  // of a batch norm, under any name
  bool is_one_to_one = false;     // each call reads one tensor, and others take one from it
  Tensor weight = {};             // the parameter of that name
  std::optional<nn::LoraLayer> layer = {};  // without the weight
  int names = 0;                            // of its tensors and modules

 protected:
  bool takes_one_tensor() const override { return false; }
  bool takes_forward_hooks() const override { return is_one_to_one; }
  DType dtype_for(DType asked, const Tensor& own) const override;

 private:
  const ModuleTree& tree_;
};

/// The modules below a model.
class ModuleTree {
 public:
  /// Registers a tensor of the model itself; only its class can.
  using OwnTensor = std::function<void(const std::string& name, const Tensor&, bool is_buffer)>;
  /// `file` stands for the model in messages. `knows_calls`: whether the model runs the hooks of
  /// the modules.
  ModuleTree(nn::Module& model, OwnTensor own, std::string file, bool knows_calls);

  /// The module at this path below the model, made with those above it.
  /// throws: DataError for modules nested more than 64 deep, more than 10,000 names in one module,
  /// or a path of more than 1,000 bytes; ValueError for a path that is no list of names.
  Part& part_at(std::string_view path);
  /// Registers a tensor under its name with dots.   → its module; null: the model
  /// throws: DataError that names the file and the tensor.
  Part* add(const std::string& name, const Tensor& tensor, bool is_buffer);

  /// Notes that `tensor` belongs to a batch norm: it stays f32 if the model becomes half.
  void note_norm(const Tensor& tensor) { norms_.insert(tensor.handle().get()); }
  bool is_of_norm(const Tensor& tensor) const { return norms_.contains(tensor.handle().get()); }
  /// What to(asked) makes of a tensor of the model or of a module in it.
  DType dtype_for(DType asked, const Tensor& tensor) const {
    return is_half(asked) && is_of_norm(tensor) ? kF32 : asked;
  }
  bool knows_calls() const { return knows_calls_; }

 private:
  void count_name(Part* part, std::string_view path);

  nn::Module& model_;
  OwnTensor own_;
  std::string file_;
  std::map<std::string, std::unique_ptr<Part>, std::less<>> parts_;  // by their paths
  int names_ = 0;  // of the model's own tensors and modules
  std::unordered_set<const TensorImpl*> norms_;
  bool knows_calls_;
};

}  // namespace lathe::jit
