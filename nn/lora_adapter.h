// Adapter: the two matrices that LoRA adds to one layer. Internal: lora.h is what others use.
#pragma once

#include <memory>
#include <string>

#include "lathe/core/tensor.h"
#include "lathe/nn/lora.h"
#include "lathe/nn/lora_layer.h"
#include "lathe/nn/module.h"

namespace lathe::nn {

/// "fc" and "weight" → "fc.weight"; what is below the root has no prefix.
inline std::string below(const std::string& module, const std::string& name) {
  return module.empty() ? name : module + "." + name;
}

/// One of the matrices, as a child of its layer.
struct LoraFactor final : Module {
  LoraFactor(Module& layer, const std::string& name, const Tensor& value) : Module(layer, name) {
    parameter("weight", value);
  }
};

struct Adapter : std::enable_shared_from_this<Adapter> {
  using enum LoraLayer::Kind;

  std::string name;  // the layer's
  Module* module = nullptr;
  LoraLayer layer = {};  // as it was at the start; the weight: weight_now()
  Tensor a = {}, b = {};
  double scale = 1, dropout = 0;

  /// The names of a and b as children of the layer: "lora_A" or "lora_embedding_A".
  static const char* name_of_a(LoraLayer::Kind kind);
  static const char* name_of_b(LoraLayer::Kind kind);

  /// The parameter of the layer, which others may have replaced since add_lora().
  Tensor weight_now() const;
  int64_t rank() const { return a.dim(0); }
  /// What the layer's result gets for input x.
  Tensor addition(const Tensor& x, bool training) const;
  /// What the weight gets if the adapter is merged: in its shape, and of the adapter's dtype.
  Tensor change() const;

  /// Puts the adapter into the model, which then owns it, too.
  void attach();
  void detach();
  void merge();
  void unmerge();

 private:
  std::unique_ptr<LoraFactor> a_in_model_ = {}, b_in_model_ = {};
  int64_t hook_ = 0;
  Tensor before_ = {};  // merge(): the weight's values
};

/// An adapter for a module that has a lora_layer(), not yet attached, with its first values.
std::shared_ptr<Adapter> make_adapter(const std::string& name, Module& module,
                                      const LoraOptions& options);

/// throws: StateError if it has.
void check_has_no_adapter(const std::string& name, const Module& module);

}  // namespace lathe::nn
