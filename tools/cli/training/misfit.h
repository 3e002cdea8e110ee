// Finds the model to which weights belong.
#pragma once

#include <optional>
#include <string>

#include "lathe/core/state_dict.h"
#include "lathe/tools/cli/training/compute.h"

namespace lathe::cli {

/// A name of --model, and the numbers of classes and channels.
struct FittingModel {
  std::string name;
  ModelShape shape;

  std::string text() const;  // "resnet18 of 1000 classes and 3 channels"
};

/// Searches the models that --model can name for one with exactly these names and shapes, for any
/// number of classes and channels and either stem. Vision Transformers are compared for images of
/// 224 pixels. The search makes each model, without values.
/// → nothing if no model fits
std::optional<FittingModel> fitting_model(const StateDict& weights);

}  // namespace lathe::cli
