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
  // Patterns as for freeze(), but for "backbone": names of the layers that get an adapter, or of
  // modules above them. A module that matches but cannot have an adapter is skipped.
  std::vector<std::string> targets = {"*"};
  // Modules or parameters that train in full and are saved with the adapters: a new head. Patterns
  // as for freeze(). A layer among them gets no adapter.
  std::vector<std::string> trained = {};
  double dropout = 0;              // of the adapter's input in training; embeddings have none
  bool rank_stabilized = false;    // rsLoRA: multiply by alpha / sqrt(rank) instead
  Generator* generator = nullptr;  // of the initial values; null: the default one
};

/// The adapters of a model. They stay in the model when this object is destroyed, unless they are
/// merged. Refers to the model's layers, which must outlive it and not be moved.
class LATHE_API Lora {
 public:
  Lora(Lora&&) noexcept;
  Lora& operator=(Lora&&) noexcept;
  ~Lora();

  /// The names of the layers that have an adapter, in the order of Module::named_modules().
  std::vector<std::string> layers() const;
  /// The tensors that train: those of the adapters, in the order of layers(), then those that
  /// LoraOptions::trained names.
  Tensors parameters() const;
  /// The parameters that add_lora() froze. Call frozen().hold() after every model.train(), or batch
  /// norms of the frozen model change their running statistics.
  const Frozen& frozen() const { return frozen_; }

  /// Adds the adapters to the weights and takes them out of the model: its entries have the same
  /// names as before add_lora(), and a call costs as much as then. Results are the same up to
  /// rounding, unless the model also reads a weight outside its layer's own call: there the merge
  /// adds to it, and the adapter did not. Frozen parameters stay frozen.
  /// throws: StateError if they are merged, or if a weight is also another layer's, which the merge
  /// would change. Nothing has changed then.
  void merge();
  /// Restores the weights from before merge(), bit for bit, and puts the adapters into the model
  /// again, on the device and in the dtype that the weights have now. Later changes to merged
  /// weights are lost.
  /// throws: StateError unless they are merged.
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

/// Freezes the model and gives each target y = f(x, W) an adapter of two matrices A and B, so that
/// it computes y + scale · f(x, B A). B A is never formed, so that W costs no gradient.
///   layer      A                  B                  names below the layer's
///   Linear     [rank,in]          [out,rank]         lora_A.weight, lora_B.weight
///   Conv2d     [rank,in,R,S]      [out,rank,1,1]     the same
///   Embedding  [rank,entries]     [width,rank]       lora_embedding_A.weight, lora_embedding_B.…
/// These are layers of any module and of a jit::Program, in which GPT-2's Conv1D counts as Linear.
/// A Conv2d must have one group: with several groups, no single weight could hold the sum. At first
/// the adapter adds 0: A is U(±1/sqrt(fan_in)) and B is 0; of an Embedding A is 0 and B is N(0,1).
/// Adapters of a half weight are f32, like PEFT's. In a model that has adapters of other layers,
/// what trains goes on to train.
/// throws, and nothing has changed then:
///   ValueError  rank or alpha not positive, dropout outside [0,1); a target that matches no module
///               (with the nearest name) or none of these layers
///   StateError  a layer that has an adapter already
LATHE_API Lora add_lora(Module& model, const LoraOptions& options = {});

/// Adds the adapters of a folder that PEFT or Lora::save() wrote. The file's names tell the layers,
/// its shapes the ranks.
/// throws, and nothing has changed then:
///   FileError   a file cannot be read
///   DataError   a damaged file; another method than plain LoRA (DoRA, biases, weights changed by
///               the initialisation)
///   ValueError  an entry that the model has no layer for (with the nearest name), or of another
///               shape
///   StateError  a layer that has an adapter already
LATHE_API Lora load_lora(Module& model, const std::string& folder);

}  // namespace lathe::nn
