// Loading weights with or without a head, and what the settings say about both.
#include "lathe/tools/cli/training/fine_tuning.h"

#include <algorithm>
#include <optional>

#include "lathe/core/error.h"
#include "lathe/core/formats/safetensors_header.h"
#include "lathe/core/formats/tensor_file.h"
#include "lathe/core/text/formatted.h"
#include "lathe/graph/graph_module.h"
#include "lathe/graph/pt2/program.h"
#include "lathe/nn/misfit.h"
#include "lathe/nn/models.h"
#include "lathe/nn/weights.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/settings/defaults.h"
#include "lathe/tools/cli/settings/models.h"
#include "lathe/tools/cli/settings/settings_sources.h"
#include "lathe/tools/cli/settings/takes.h"
#include "lathe/tools/cli/training/graph_file.h"
#include "lathe/tools/cli/training/misfit.h"
#include "lathe/tools/cli/training/model_file.h"
#include "lathe/tools/cli/training/reading_data.h"
#include "lathe/tools/cli/training/resume.h"

namespace lathe::cli {
namespace {

constexpr std::string_view kFirstFilters = "conv1.weight";  // of models that have a stem
constexpr size_t kMostParts = 10;                           // in one line

// "2 entries: fc.weight f32[10,512], fc.bias f32[10]", with at most kMostParts names.
std::string list_of(const std::vector<StateDict::Entry>& entries) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : entries) {
    if (names.size() == kMostParts) {
      names.emplace_back("…");
      break;
    }
    names.push_back(concat(name, " ", tensor.dtype(), tensor.shape()));
  }
  return formatted("{} {}: {}", entries.size(), entries.size() == 1 ? "entry" : "entries",
                   joined(names, ", "));
}

// Whether the file has all of the model but its head, and but the entry `other`.
bool fits_without_head(const StateDict& from_file, const nn::Module& model, const std::string& head,
                       std::string_view other = "") {
  return std::ranges::all_of(model.state_dict(), [&](const auto& entry) {
    const Tensor* const found = from_file.find(entry.first);
    return is_below(entry.first, head) || entry.first == other ||
           (found != nullptr && nn::same_kind(*found, entry.second));
  });
}

// "": the head of the file is missing or is of as many classes
std::string_view other_classes(const StateDict& from_file, const nn::Module& model,
                               const std::string& head) {
  const bool differs = std::ranges::any_of(model.state_dict(), [&](const auto& entry) {
    const Tensor* const found = is_below(entry.first, head) ? from_file.find(entry.first) : nullptr;
    return found != nullptr && found->ndim() > 0 && found->ndim() == entry.second.ndim() &&
           found->dim(0) != entry.second.dim(0);
  });
  return differs ? ": the file is of other classes" : "";
}

// The stem that a first convolution is of; empty if of neither.
std::string_view stem_of(const Shape& filters) {
  const int64_t side = filters.size() == 4 ? filters[3] : 0;
  return side == 7 ? "imagenet" : side == 3 ? "cifar" : "";
}

// What a file of any kind has for the model.
nn::FileWeights weights_in(const std::string& file, const nn::Module& model,
                           const std::string& section) {
  nn::FileWeights weights = reading_data([&]() -> nn::FileWeights {
    if (is_graph_file(file)) return {weights_of(read_graph_file(file).graph), {}};
    if (is_program_file(file)) return {jit::load_program(file).state_dict(), {}};
    return nn::read_weights(file, model, section);
  });
  if (weights.entries.size() == 0)
    throw CommandError(ExitCode::kData, formatted("{}: holds no tensors", file));
  return weights;
}

// The adapters that a checkpoint of --lora-rank has, added to the model for its values; none if it
// has none.
std::optional<nn::Lora> adapters_for(const nn::FileWeights& file, const std::string& path,
                                     nn::Module& model) {
  if (!has_adapters(file.entries) || tensor_file_format(path) != TensorFileFormat::kSafetensors)
    return {};
  const safetensors::Metadata about = safetensors::read_metadata(path);
  const auto config = about.find(kConfigKey);
  if (config == about.end()) return {};  // of another program
  const Settings saved =
      merge_settings({.saved_config = config->second, .saved_name = path}, kTrain);
  try {
    return tune(model, saved).lora;
  } catch (const UsageError&) {  // of another model, which its names will tell
    return {};
  }
}

// The stem of the weights in a file; empty if there is no first convolution that tells it.
std::string_view stem_in(const std::string& file, const Settings& settings) try {
  const bool is_other = is_onnx_file(file) || is_program_file(file);
  if (!is_other && tensor_file_format(file) == TensorFileFormat::kSafetensors) {
    const std::optional<Shape> filters = nn::stored_shape(file, kFirstFilters);
    return filters ? stem_of(*filters) : "";
  }
  const auto model = make_empty_model(settings, {});
  const StateDict entries = weights_in(file, *model, settings.weights_section).entries;
  const Tensor* const filters = entries.find(kFirstFilters);
  return filters == nullptr ? "" : stem_of(filters->shape());
} catch (const FileError& e) {
  throw CommandError(ExitCode::kData, e.message());
}

// The stem of the file's weights; empty if that is not what differs.
std::string_view other_stem(const StateDict& from_file, const StateDict& own) {
  const Tensor *const theirs = from_file.find(kFirstFilters), *const ours = own.find(kFirstFilters);
  if (theirs == nullptr || ours == nullptr || theirs->ndim() != 4 || ours->ndim() != 4) return "";
  const bool differs = theirs->dim(3) != ours->dim(3) && theirs->dim(0) == ours->dim(0);
  return differs ? stem_of(theirs->shape()) : "";
}

// Flags that mean the last layer find it by its module.
void check_head(const nn::Module& model, const Settings& settings) {
  const auto* const known = dynamic_cast<const nn::KnowsHead*>(&model);
  if (known == nullptr) return;
  const auto frozen = split_list(settings.freeze);
  const bool needs_head = settings.head_lr || std::ranges::find(frozen, "backbone") != frozen.end();
  const std::vector<std::string> parameters = known->head_parameters();
  if (needs_head && parameters.empty())
    throw UsageError(
        formatted("--freeze backbone and --head-lr need a last layer; no linear layer or "
                  "convolution makes the result of {}",
                  *settings.model));
  if ((!needs_head && settings.lora_rank == 0) || !head_of(model).empty()) return;
  throw UsageError(
      formatted("--freeze backbone, --head-lr and --lora-rank need a last layer that is a module; "
                "the parameters of that of {} are {}",
                *settings.model, joined(parameters, " and ")));
}

// What may have been meant, where a file does not fit.
std::string hint_for(const StateDict& from_file, const nn::Module& model,
                     std::optional<bool> new_head) {
  const std::string head = head_of(model);
  const StateDict own = model.state_dict();
  const std::string_view stem = other_stem(from_file, own);
  if (!stem.empty() && !head.empty() && fits_without_head(from_file, model, head, kFirstFilters))
    return formatted("; the file's first layer is that of --stem {}", stem);
  const bool has_more = std::ranges::any_of(from_file, [&](const auto& entry) {
    return !is_below(entry.first, head) && !own.contains(entry.first);
  });
  if (!new_head.value_or(false) && !head.empty() && !has_more &&
      fits_without_head(from_file, model, head)) {
    return new_head ? "; --new-head begins with a new " + head
                    : formatted("; all but {} fits{}", head, other_classes(from_file, model, head));
  }
  const std::optional<FittingModel> fitting = fitting_model(from_file);
  return fitting ? formatted("; the file fits {}", fitting->text()) : "";
}

}  // namespace

std::vector<std::string> load_weights(nn::Module& model, const std::string& path,
                                      std::optional<bool> new_head, const std::string& section) {
  const bool is_new = new_head.value_or(false);
  const nn::FileWeights file = weights_in(path, model, section);
  std::vector<std::string> lines;
  if (!file.prefix.empty())
    lines.push_back(
        formatted("{}: the names begin with \"{}\", which is removed", path, file.prefix));
  const Tensors parameters = model.parameters();
  std::vector<bool> trains;
  for (const Tensor& p : parameters) trains.push_back(p.requires_grad());
  std::optional<nn::Lora> lora = adapters_for(file, path, model);
  const std::string head = head_of(model);
  if (is_new && head.empty())
    throw UsageError(
        formatted("--new-head: a {} has no layers before a head, so all of it would be new",
                  model.type_name()));
  const nn::WithoutHead sorted =
      is_new ? nn::without_head(file.entries, model) : nn::WithoutHead{file.entries, {}, {}};
  try {
    model.load_state_dict(sorted.state);
  } catch (const ValueError& e) {
    const std::string misfit = nn::misfit_text(sorted.state, file.entries, model);
    throw CommandError(ExitCode::kData, misfit.empty()
                                            ? formatted("{}: {}", path, e.message())
                                            : formatted("{} does not fit: {}{}", path, misfit,
                                                        hint_for(file.entries, model, new_head)));
  }
  if (lora) {
    lora->merge();
    for (size_t i = 0; i < parameters.size(); ++i) parameters[i].requires_grad_(trains[i]);
    lines.push_back(formatted("{}: {} adapters of rank {} are merged into their weights", path,
                              lora->layers().size(), lora->parameters()[0].dim(0)));
  }
  if (is_new)
    lines.push_back(formatted("new head: {} keep their random values", list_of(sorted.fresh)));
  if (!sorted.unused.empty())
    lines.push_back(formatted("not used of {}: {}", path, list_of(sorted.unused)));
  return lines;
}

ModelShape shape_in_file(const Settings& settings, const std::string& file) {
  if (is_model_file(*settings.model))
    return {.classes = settings.classes, .in_channels = settings.in_channels};
  const auto make = [&](const ModelShape& shape) { return make_empty_model(settings, shape); };
  return shape_of_weights(weights_in(file, *make({}), settings.weights_section).entries, make);
}

std::string choose_model(Settings& settings, const std::string& file) {
  if (settings.model || file.empty()) return "";
  if (take_start_program(settings, file))
    return formatted("chosen: --model {} ({} carries this program)", *settings.model, file);
  Settings usual = settings;  // its names tell which prefix a wrapper has put before them
  usual.model = "resnet18";
  usual.stem = "imagenet";
  usual.image_size = 224;
  const StateDict entries =
      weights_in(file, *make_empty_model(usual, {}), usual.weights_section).entries;
  const std::optional<FittingModel> fitting = fitting_model(entries);
  if (!fitting) return "";
  settings.model = fitting->name;
  return formatted("chosen: --model {}, which has the names and shapes of the weights in {}",
                   fitting->name, file);
}

std::string choose_stem(Settings& settings, const std::string& file) {
  if (settings.stem) return "";
  const nn::ModelKind* const kind = nn::find_model_kind(*settings.model);
  const bool has_stem = kind != nullptr && kind->has_stem;
  const std::string_view told = has_stem && !file.empty() ? stem_in(file, settings) : "";
  const int64_t side = *settings.image_size;
  settings.stem = told.empty() ? stem_for(side) : told;
  if (!has_stem) return "";
  return formatted("chosen: --stem {} ({})", *settings.stem,
                   told.empty() ? formatted("the images are {0} x {0}", side)
                                : formatted("as the weights of {} have it", file));
}

bool has_adapters(const StateDict& entries) {
  return std::ranges::any_of(entries, [](const auto& entry) {
    return entry.first.ends_with(".lora_A.weight") ||
           entry.first.ends_with(".lora_embedding_A.weight");
  });
}

Tuned tune(nn::Module& model, const Settings& settings) try {
  Tuned out;
  check_head(model, settings);
  if (settings.lora_rank > 0) {
    if (dynamic_cast<const jit::GraphModule*>(&model) != nullptr)
      throw UsageError(formatted(
          "--lora-rank: --model {} is a graph, whose layers take no adapters; a .pt2 file "
          "and the library's models do",
          *settings.model));
    const std::string head = head_of(model);
    nn::LoraOptions options{.rank = settings.lora_rank,
                            .alpha = settings.lora_alpha,
                            .targets = split_list(settings.lora_targets)};
    if (!head.empty()) options.trained = {head};
    out.lora = nn::add_lora(model, options);
    out.frozen = out.lora->frozen();
  } else if (settings.freeze != "none") {
    out.frozen = nn::freeze(model, split_list(settings.freeze));
  }
  return out;
} catch (const ValueError& e) {
  // "freeze: …" and "add_lora: …"
  constexpr std::string_view kAdding = "add_lora: ";
  const std::string text = e.message();
  throw UsageError(text.starts_with(kAdding) ? "--lora-targets: " + text.substr(kAdding.size())
                                             : "--" + text);
}

std::string frozen_head_remark(const nn::Module& model, const Settings& settings) {
  const bool has_weights = !settings.weights.empty() || is_model_file(settings.model.value_or(""));
  if (!settings.new_head || !has_weights) return "";
  const Tensors head = split_by_head(model, model.parameters()).second;
  if (head.empty() || std::ranges::any_of(head, &Tensor::requires_grad)) return "";
  return formatted("--freeze {} freezes the new head {}: it keeps its random values",
                   settings.freeze, head_of(model));
}

}  // namespace lathe::cli
