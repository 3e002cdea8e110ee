// LoRA: fine-tuning that freezes a model and trains small additions to the weights of its layers.
//   nn::Lora lora = nn::add_lora(model, {.rank = 8, .alpha = 16, .targets = {"*.qkv", "*.fc*"}});
//   optim::AdamW adam(lora.parameters(), {.lr = 1e-3});
//   …                      // train as without adapters
//   lora.save("adapter");  // a folder that PEFT, Hugging Face's library, reads
//   lora.merge();          // now the model has its old entries, with other weights
// lora.cpp: adapters in a model; lora_adapter.h: the formula; lora_file.cpp: PEFT's files.
// ref: Hu et al. 2021 (arXiv:2106.09685).
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/state_dict.h"
#include "lathe/core/tensor.h"
#include "lathe/nn/fine_tuning.h"
#include "lathe/nn/module.h"

namespace lathe::nn {

struct Adapter;

struct LoraOptions {
  int64_t rank = 8;   // may exceed the sizes of a weight, as in PEFT
  double alpha = 16;  // the addition is multiplied by alpha / rank
  // Patterns as for freeze(), except that "backbone" has no special meaning: names of the layers
  // that get an adapter, or of modules above them. A module that matches but cannot have an adapter
  // is skipped.
  std::vector<std::string> targets = {"*"};
  // Modules or parameters that train in full and are saved with the adapters: a new head. Patterns
  // as for freeze(). A layer among them gets no adapter.
  std::vector<std::string> trained = {};
  double dropout = 0;              // of the adapter's input in training; embeddings have none
  bool rank_stabilized = false;    // rsLoRA: multiply by alpha / sqrt(rank) instead
  Generator* generator = nullptr;  // of the initial values; null: the default one
};

/// The adapters of a model. The adapters stay in the model when the Lora is destroyed, unless they
/// are merged. The model's layers must outlive the Lora and must not be moved.
class LATHE_API Lora {
 public:
  Lora(Lora&&) noexcept;
  Lora& operator=(Lora&&) noexcept;
  ~Lora();

  /// The names of the layers that have an adapter, in the order of Module::named_modules().
  std::vector<std::string> layers() const;
  /// The tensors that a LoRA training changes: first the adapters' tensors, in the order of
  /// layers(), then the tensors that LoraOptions::trained names.
  Tensors parameters() const;
  /// The parameters that add_lora() froze. Call frozen().hold() after every model.train(), or batch
  /// norms of the frozen model change their running statistics.
  const Frozen& frozen() const { return frozen_; }

  /// Adds the adapters to the weights and removes them from the model. The names of the model's
  /// entries, and the cost of a call, are then as before add_lora(). Frozen parameters stay frozen.
  /// Results stay the same up to rounding, with one exception: if the model also reads a weight
  /// outside the call of its layer, it reads the merged weight there, while the adapter had no
  /// effect there.
  /// throws: StateError if the adapters are merged already, or if one of the weights is a view or
  /// shared by another layer; OutOfMemoryError. Nothing has changed then.
  void merge();
  /// Restores the weights from before merge(), bit for bit, and puts the adapters into the model
  /// again, on the device and in the dtype that the weights have now. Changes that were made to the
  /// merged weights are lost.
  /// throws: StateError unless the adapters are merged, or if a layer has another adapter by now;
  /// OutOfMemoryError. Nothing has changed then.
  void unmerge();
  bool is_merged() const { return is_merged_; }

  /// The adapters and the entries of modules that train in full, under PEFT's names:
  /// "base_model.model.fc.lora_A.weight".
  StateDict state_dict() const;
  /// Writes adapter_model.safetensors and adapter_config.json into a folder, which it makes.
  /// throws: FileError.
  void save(const std::string& folder) const;

 private:
  friend Lora add_lora(Module&, const LoraOptions&);
  friend Lora load_lora(Module&, const std::string&);
  Lora(Module& model, const LoraOptions& options, Module::Named<Tensor> trained,
       std::vector<std::shared_ptr<Adapter>> adapters);

  Module* model_;
  LoraOptions options_;
  std::vector<std::shared_ptr<Adapter>> adapters_;
  Module::Named<Tensor> trained_;  // parameters
  Frozen frozen_;
  bool is_merged_ = false;
};

/// Freezes the model, and gives each target layer y = f(x, W) an adapter: two matrices A and B. The
/// layer then computes y + scale · f(x, B A). The product B A is never formed, and no gradient of W
/// is computed.
///   layer      A                  B                  names below the layer's
///   Linear     [rank,in]          [out,rank]         lora_A.weight, lora_B.weight
///   Conv2d     [rank,in,R,S]      [out,rank,1,1]     the same
///   Embedding  [rank,entries]     [width,rank]       lora_embedding_A.weight, lora_embedding_B.…
/// The layers may be in any module, also in a jit::Program, where GPT-2's Conv1D counts as Linear.
/// A layer of a program takes no adapter if its weight is also read outside of its own calls. A
/// Conv2d must have one group: with several groups, no single weight could hold the sum. A new
/// adapter adds 0: A is U(±1/sqrt(fan_in)) and B is 0. For an Embedding, A is 0 and B is N(0,1).
/// Adapters of a half weight are f32, as in PEFT. If other layers of the model have adapters
/// already, the tensors that train there stay trainable. An adapter is a forward hook of its layer.
/// So jit::compile() does not compile a model with adapters, and a convolution with an adapter is
/// not fused with the norm before it.
/// throws, and nothing has changed then:
///   ValueError  rank or alpha not positive, dropout outside [0,1); a target that matches no module
///               (with the nearest name) or no layer that can have an adapter
///   StateError  a layer that has an adapter already
LATHE_API Lora add_lora(Module& model, const LoraOptions& options = {});

/// Adds the adapters of a folder that PEFT or Lora::save() wrote. The names in the file say which
/// layers get adapters, and the shapes give the ranks.
/// throws, and nothing has changed then:
///   FileError   a file cannot be read
///   DataError   a damaged file; another method than plain LoRA (DoRA, biases, weights changed by
///               the initialisation)
///   ValueError  an entry that the model has no layer for (with the nearest name), or of another
///               shape
///   StateError  a layer that has an adapter already
LATHE_API Lora load_lora(Module& model, const std::string& folder);

}  // namespace lathe::nn
