// fitting_model() tries every model of --model.
#include "lathe/tools/cli/training/misfit.h"

#include <optional>

#include "lathe/core/error.h"
#include "lathe/core/text/formatted.h"
#include "lathe/nn/init.h"
#include "lathe/nn/misfit.h"
#include "lathe/tools/cli/settings/models.h"
#include "lathe/tools/cli/training/compute.h"

namespace lathe::cli {
namespace {

// A count that old .pth files lack: it tells nothing about the model.
bool is_counter(const std::string& name) { return name.ends_with("num_batches_tracked"); }

// Whether the two have the same names, apart from the counters.
bool same_names(const StateDict& a, const StateDict& b) {
  for (const auto& [name, tensor] : a)
    if (!is_counter(name) && !b.contains(name)) return false;
  for (const auto& [name, tensor] : b)
    if (!is_counter(name) && !a.contains(name)) return false;
  return true;
}

bool fits(const StateDict& weights, const StateDict& own) {
  for (const auto& [name, tensor] : own) {
    const Tensor* const found = weights.find(name);
    if (found == nullptr ? !is_counter(name) : !nn::same_kind(*found, tensor)) return false;
  }
  return same_names(weights, own);
}

// The shape of this model for which it has the weights; none if there is no such shape.
std::optional<ModelShape> shape_that_fits(const Model& model, nn::Stem stem,
                                          const StateDict& weights) try {
  const auto make = [&](const ModelShape& shape) {
    return model.make({.classes = shape.classes, .in_channels = shape.in_channels, .stem = stem});
  };
  if (!same_names(weights, make({.classes = 1, .in_channels = 1})->state_dict())) return {};
  const ModelShape shape = shape_of_weights(weights, make);
  if (shape.classes < 1 || shape.in_channels < 1) return {};
  if (!fits(weights, make(shape)->state_dict())) return {};
  return shape;
} catch (const Error&) {  // a model that a program has added may refuse such numbers
  return {};
}

}  // namespace

std::string FittingModel::text() const {
  return formatted("{} of {} class{} and {} channel{}", name, shape.classes,
                   shape.classes == 1 ? "" : "es", shape.in_channels,
                   shape.in_channels == 1 ? "" : "s");
}

std::optional<FittingModel> fitting_model(const StateDict& weights) {
  const nn::init::Skip skip;
  for (const Model& model : models()) {
    for (const nn::Stem stem : {nn::Stem::kImagenet, nn::Stem::kCifar}) {
      const std::optional<ModelShape> shape = shape_that_fits(model, stem, weights);
      if (shape) return FittingModel{std::string(model.name), *shape};
    }
  }
  return std::nullopt;
}

}  // namespace lathe::cli
