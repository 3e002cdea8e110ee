// Adapter: the two matrices that LoRA adds to one layer. Internal: lora.h is what others use.
#pragma once

#include <memory>
#include <string>
#include <utility>

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

  // A merge of several adapters, or its undoing, is all or nothing: first the functions that make
  // tensors, for all of them, then the others.
  /// The tensor that merge() puts in the place of the weight.
  /// throws: StateError for a weight that cannot take other data.
  Tensor merged() const;
  void merge(const Tensor& merged);
  /// The weight, A and B after unmerge(), on the device where the weight is now.
  struct Restored {
    Tensor weight, a, b;
  };
  Restored restored() const;
  void unmerge(const Restored& restored);

 private:
  std::unique_ptr<LoraFactor> a_in_model_ = {}, b_in_model_ = {};
  int64_t hook_ = 0;
  Tensor before_ = {};  // merge(): the weight's values
};

/// The shapes of A and B.
std::pair<Shape, Shape> factor_shapes(const LoraLayer& layer, int64_t rank);

/// An adapter for a module that has a lora_layer(), not yet attached. Its values: those of `a` and
/// `b`, which have the factor_shapes(); without them, drawn from the generator.
std::shared_ptr<Adapter> make_adapter(const std::string& name, Module& module,
                                      const LoraOptions& options, const Tensor& a = {},
                                      const Tensor& b = {});

/// throws: StateError if it has, or if a name that the adapter needs is taken.
void check_has_no_adapter(const std::string& name, const Module& module);

/// What trains already in a model that has adapters; nothing in one without.
Tensors trained_beside_adapters(const Module& model);

}  // namespace lathe::nn
