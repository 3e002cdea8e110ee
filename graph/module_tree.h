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

#include "lathe/nn/lora_layer.h"
#include "lathe/nn/module.h"

namespace lathe::jit {

/// A module of a file's model: its tensors, its name and its mode. The model's graph runs, not this
/// module's forward(): it has CallHooks, and forward hooks if `is_one_to_one`.
class Part final : public nn::Module {
 public:
  using nn::Module::buffer, nn::Module::has_hooks, nn::Module::parameter,
      nn::Module::run_call_hooks;

  Part() = default;
  Part(nn::Module& parent, const std::string& name) : nn::Module(parent, name) {}

  std::optional<nn::LoraLayer> lora_layer() const override;
  /// The forward hooks of a call that is one to one, with errors that name this module.
  Tensor replaced(const Tensor& x, const Tensor& y);

  bool is_batch_norm = false;
  bool is_one_to_one = false;  // each call reads one tensor, and others take one from it
  Tensor weight = {};          // the parameter of that name
  std::optional<nn::LoraLayer> layer = {};  // without the weight
  int names = 0;                            // of its tensors and modules

 protected:
  bool takes_one_tensor() const override { return false; }
  bool takes_forward_hooks() const override { return is_one_to_one; }
  DType dtype_for(DType asked) const override {
    return is_batch_norm && is_half(asked) ? kF32 : asked;
  }
};

/// The modules below a model.
class ModuleTree {
 public:
  /// Registers a tensor of the model itself; only its class can.
  using OwnTensor = std::function<void(const std::string& name, const Tensor&, bool is_buffer)>;
  /// `file` stands for the model in messages.
  ModuleTree(nn::Module& model, OwnTensor own, std::string file);

  /// The module at this path below the model, made with those above it.
  /// throws: DataError for more than 64 modules in modules, or 10,000 names in one; ValueError for
  /// a path that is no list of names.
  Part& part_at(std::string_view path);
  /// Registers a tensor under its name with dots.   → its module; null: the model
  /// throws: DataError that names the file and the tensor.
  Part* add(const std::string& name, const Tensor& tensor, bool is_buffer);

 private:
  void count_name(Part* part, std::string_view path);

  nn::Module& model_;
  OwnTensor own_;
  std::string file_;
  std::map<std::string, std::unique_ptr<Part>, std::less<>> parts_;  // by their paths
  int names_ = 0;  // of the model's own tensors and modules
};

}  // namespace lathe::jit
