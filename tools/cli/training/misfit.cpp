// misfit_text() compares names and shapes; fitting_model() tries every model of --model.
#include "lathe/tools/cli/training/misfit.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/text/formatted.h"
#include "lathe/nn/init.h"
#include "lathe/tools/cli/settings/models.h"
#include "lathe/tools/cli/training/compute.h"

namespace lathe::cli {
namespace {

// A count that old .pth files lack: it tells nothing about the model.
bool is_counter(const std::string& name) { return name.ends_with("num_batches_tracked"); }

std::string kind_of(const Tensor& tensor) { return concat(tensor.dtype(), tensor.shape()); }

// "3 are missing (a, b, c)"; "" for none
std::string counted(const std::vector<std::string>& names, std::string_view one,
                    std::string_view many) {
  constexpr size_t kMostNames = 3;
  if (names.empty()) return "";
  const std::vector<std::string> first(
      names.begin(), names.begin() + static_cast<int64_t>(std::min(names.size(), kMostNames)));
  return formatted("{} {} ({}{})", names.size(), names.size() == 1 ? one : many,
                   joined(first, ", "), names.size() > kMostNames ? ", …" : "");
}

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
    if (found == nullptr ? !is_counter(name) : !same_kind(*found, tensor)) return false;
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

bool same_kind(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && is_floating(a.dtype()) == is_floating(b.dtype());
}

std::string misfit_text(const StateDict& state, const StateDict& from_file,
                        const nn::Module& model) {
  std::vector<std::string> missing, other, unknown;
  const StateDict own = model.state_dict();
  for (const auto& [name, tensor] : own) {
    const Tensor* const found = state.find(name);
    if (found == nullptr) {
      missing.push_back(name);
    } else if (!same_kind(*found, tensor)) {
      other.push_back(formatted("{} {} for {}", name, kind_of(*found), kind_of(tensor)));
    }
  }
  for (const auto& [name, tensor] : from_file)
    if (!own.contains(name)) unknown.push_back(name);
  std::vector<std::string> parts;
  for (const std::string& part :
       {counted(missing, "is missing", "are missing"),
        counted(other, "has another shape or kind", "have another shape or kind")}) {
    if (!part.empty()) parts.push_back(part);
  }
  std::string text;
  if (!parts.empty())
    text = formatted("of the model's {} entries {}", own.size(), joined(parts, " and "));
  if (const std::string left = counted(unknown, "of the file's is not in the model",
                                       "of the file's are not in the model");
      !left.empty())
    text += (text.empty() ? "" : "; ") + left;
  return text;
}

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
