// What is said of weights that a model does not take: how many entries differ, a few of them, and
// the model that they are of.
#pragma once

#include <optional>
#include <string>

#include "lathe/core/state_dict.h"
#include "lathe/nn/module.h"
#include "lathe/tools/cli/training/compute.h"

namespace lathe::cli {

/// Whether a model's entry takes these values: shapes are equal, and both are floats or neither.
bool same_kind(const Tensor& a, const Tensor& b);

/// "of the model's 122 entries 3 are missing (a, b, c); 20 of the file's are not in the model (…)",
/// with at most three names each. `state`: what would be loaded; `from_file`: all that the file
/// has.   → "" if names, shapes and kinds are the model's
std::string misfit_text(const StateDict& state, const StateDict& from_file,
                        const nn::Module& model);

/// A name of --model, and the numbers of classes and channels.
struct FittingModel {
  std::string name;
  ModelShape shape;

  std::string text() const;  // "resnet18 of 1000 classes and 3 channels"
};

/// The model of --model that has just these names and shapes for some number of classes and
/// channels, with either stem; Vision Transformers for images of 224 pixels. Makes each model for
/// that, without values.   → nothing if there is none
std::optional<FittingModel> fitting_model(const StateDict& weights);

}  // namespace lathe::cli
