// Fine-tuning: training that begins with another model's weights. Which part of a model is its
// head, how all but the head is loaded, and how parameters stay as they are.
//
//   nn::load_without_head(net, "resnet18.pth");            // the classifier is new
//   const nn::Frozen frozen = nn::freeze(net, {"conv1", "bn1", "layer1"});
//   net.train();
//   frozen.hold();                                         // batch norms of frozen layers
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/state_dict.h"
#include "lathe/core/tensor.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/module.h"

namespace lathe::nn {

/// The name of a model's head, its classifier: of the last module that has parameters of its own.
/// Empty if that is the model itself; then there is nothing but the head.
LATHE_API std::string head_of(const Module& model);

/// Whether `name` is that of an entry below a module, "layer1" for instance. All are below "".
LATHE_API bool is_below(std::string_view name, std::string_view module);

/// Two lists made of one: the parameters outside of the head, and those of the head.
LATHE_API std::pair<Tensors, Tensors> split_by_head(const Module& model, const Tensors& parameters);

/// What a file has for a model whose head is new.
struct WithoutHead {
  StateDict state;                       // for load_state_dict(): the file's, and the head as it is
  std::vector<StateDict::Entry> fresh;   // the head
  std::vector<StateDict::Entry> unused;  // of the file: its head, and what the model does not have
};
LATHE_API WithoutHead without_head(const StateDict& from_file, const Module& model);

/// Loads a weights file (read_weights()) into all of the model but its head, all or nothing.
/// throws: as load().
LATHE_API void load_without_head(Module& model, const std::string& path);

/// What freeze() keeps as it is. Refers to the model.
struct Frozen {
  int64_t parameters = 0, values = 0;  // tensors, and numbers in them
  // Batch norms with every parameter frozen: training uses their running statistics and leaves them
  // alone.
  std::vector<BatchNorm*> norms = {};

  /// Call after every model.train().
  LATHE_API void hold() const;
};

/// Takes the gradient from parameters, and so the updates and the weight decay. A pattern must
/// match the name of a parameter, or of a module above it; * stands for any text, ? for one
/// character, [ab] for one of these. The word "backbone" is everything but the head.
/// throws: ValueError for a pattern that matches nothing, with the nearest name, and if nothing is
/// left to train.
LATHE_API Frozen freeze(Module& model, const std::vector<std::string>& patterns);

}  // namespace lathe::nn
