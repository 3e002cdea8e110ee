// Adapters as PEFT's two files: adapter_model.safetensors and adapter_config.json.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <type_traits>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/formats/safetensors.h"
#include "lathe/core/formats/safetensors_header.h"
#include "lathe/core/json.h"
#include "lathe/core/json_members.h"
#include "lathe/core/text/suggestion.h"
#include "lathe/nn/lora.h"
#include "lathe/nn/lora_adapter.h"

namespace lathe::nn {

namespace {

using nlohmann::json;
using safetensors::in_quotes;

constexpr std::string_view kPrefix = "base_model.model.";
constexpr int64_t kMostConfig = 16 << 20;  // bytes

std::string in_folder(const std::string& folder, const char* file) {
  return (std::filesystem::path(folder) / file).string();
}
std::string weights_file(const std::string& folder) {
  return in_folder(folder, "adapter_model.safetensors");
}
std::string config_file(const std::string& folder) {
  return in_folder(folder, "adapter_config.json");
}

/// "lora_A.weight" of a layer, but "lora_embedding_A" of an embedding.
std::string name_in_file(const char* factor) {
  const std::string name = factor;
  return name.starts_with("lora_embedding") ? name : name + ".weight";
}

json number(double value) {
  const bool whole = std::floor(value) == value && std::abs(value) < 1e15;
  return whole ? json(static_cast<int64_t>(value)) : json(value);
}

// --- reading -------------------------------------------------------------------------------------

/// The value of a key if it is there and not null; `otherwise` if not.
template <class T>
T value_of(const json& config, const char* key, T otherwise, const std::string& path) {
  const auto found = config.find(key);
  if (found == config.end() || found->is_null()) return otherwise;
  try {
    // A fraction beyond the integers has no value as one.
    if (!std::is_same_v<T, int64_t> || found->is_number_integer()) return found->get<T>();
  } catch (const json::exception&) {  // the message below says it
  }
  LATHE_FAIL(DataError, path, ": ", key, " has a value of the wrong type");
}

bool is_set(const json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && !found->is_null() && *found != false && !found->empty();
}

LoraOptions read_config(const std::string& path) {
  const std::string text = read_file(path, kMostConfig);
  const json config = json::parse(text, nullptr, false);
  LATHE_CHECK(DataError, config.is_object(), path, ": is no JSON object");
  const std::optional<std::string> twice = doubled_member(text);
  LATHE_CHECK(DataError, !twice, path, ": ", in_quotes(*twice), " appears twice");
  const auto kind = value_of<std::string>(config, "peft_type", "", path);
  LATHE_CHECK(DataError, kind == "LORA", path, ": peft_type is ", in_quotes(kind),
              "; only LORA is read");
  for (const char* key : {"use_dora", "use_qalora", "use_bdlora", "alora_invocation_tokens",
                          "alpha_pattern", "layer_replication", "lora_bias"}) {
    LATHE_CHECK(DataError, !is_set(config, key), path, ": uses ", key, ", which is not supported");
  }
  const auto bias = value_of<std::string>(config, "bias", "none", path);
  LATHE_CHECK(DataError, bias == "none", path, ": bias is ", in_quotes(bias),
              "; only none is supported");
  const auto init = config.find("init_lora_weights");
  if (init != config.end() && init->is_string()) {  // others than these change the model's weights
    const auto name = init->get<std::string>();
    LATHE_CHECK(DataError, name == "gaussian" || name == "eva" || name == "orthogonal", path,
                ": init_lora_weights is ", in_quotes(name), ", which changes the model's weights");
  }
  LoraOptions out;
  out.rank = value_of<int64_t>(config, "r", 8, path);
  out.alpha = value_of<double>(config, "lora_alpha", 8, path);
  out.dropout = value_of<double>(config, "lora_dropout", 0, path);
  out.rank_stabilized = value_of<bool>(config, "use_rslora", false, path);
  LATHE_CHECK(DataError, out.rank > 0 && std::isfinite(out.alpha) && out.alpha > 0, path, ": r is ",
              out.rank, " and lora_alpha ", out.alpha, "; both must be positive");
  LATHE_CHECK(DataError, out.dropout >= 0 && out.dropout < 1, path, ": lora_dropout is ",
              out.dropout, ", which is not in [0,1)");
  return out;
}

/// The two matrices of a layer in a file.
struct Factors {
  LoraLayer::Kind kind;
  Tensor a, b;
};

struct FileEntries {
  std::map<std::string, Factors> layers;
  StateDict others;  // of modules that train in full
};

FileEntries sorted_entries(const StateDict& tensors, const std::string& path) {
  FileEntries out;
  constexpr std::string_view kFactors[] = {"lora_A.weight", "lora_B.weight", "lora_embedding_A",
                                           "lora_embedding_B"};
  for (const auto& [full, tensor] : tensors) {
    LATHE_CHECK(DataError, full.starts_with(kPrefix), path, ": entry ", in_quotes(full),
                " does not begin with ", kPrefix);
    const std::string name = full.substr(kPrefix.size());
    bool is_factor = false;
    for (const std::string_view factor : kFactors) {
      const bool is_root = name == factor;
      if (!is_root && !name.ends_with("." + std::string(factor))) continue;
      is_factor = true;
      const std::string layer = is_root ? "" : name.substr(0, name.size() - factor.size() - 1);
      Factors& factors = out.layers[layer];
      factors.kind = factor.starts_with("lora_embedding") ? LoraLayer::Kind::kEmbedding
                     : tensor.ndim() == 4                 ? LoraLayer::Kind::kConv2d
                                                          : LoraLayer::Kind::kLinear;
      (factor.find("_A") != factor.npos ? factors.a : factors.b) = tensor;
    }
    LATHE_CHECK(DataError, is_factor || name.find("lora_") == name.npos, path, ": entry ",
                in_quotes(full), " belongs to another kind of adapter than LoRA");
    if (!is_factor) out.others.add(name, tensor);
  }
  LATHE_CHECK(DataError, !out.layers.empty(), path, ": holds no adapters");
  for (const auto& [layer, factors] : out.layers) {
    LATHE_CHECK(DataError, factors.a.defined() && factors.b.defined(), path, ": ", in_quotes(layer),
                " has only one of the two matrices");
  }
  return out;
}

void check_modules(const std::map<std::string, Factors>& layers,
                   const Module::Named<Module*>& modules, const std::string& path) {
  std::vector<std::string_view> names;
  for (const auto& [name, module] : modules) names.push_back(name);
  for (const auto& [name, factors] : layers) {
    LATHE_CHECK(ValueError, std::ranges::find(names, name) != names.end(), path,
                ": the model has no module ", in_quotes(name), suggestion(name, names));
  }
}

std::shared_ptr<Adapter> read_adapter(const std::string& name, const Factors& factors,
                                      Module& module, const LoraOptions& of_file,
                                      const std::string& path) {
  const auto layer = module.lora_layer();
  LATHE_CHECK(ValueError, layer && layer->kind == factors.kind, path, ": ", in_quotes(name),
              " of the model (", module.type_name(),
              ") is another kind of layer than the adapter is for");
  check_has_no_adapter(name, module);
  LoraOptions options = of_file;
  options.rank = factors.a.ndim() == 0 ? 0 : factors.a.dim(0);
  LATHE_CHECK(ValueError, options.rank > 0, path, ": ", in_quotes(name), " has no rank (",
              factors.a, ")");
  const auto [shape_a, shape_b] = factor_shapes(*layer, options.rank);
  const auto check = [&](const Tensor& factor, const Shape& shape) {
    LATHE_CHECK(ValueError, factor.shape() == shape && is_floating(factor.dtype()), path, ": ",
                in_quotes(name), " has the matrix ", factor, ", but a floating one of ", shape,
                " is needed");
  };
  check(factors.a, shape_a);
  check(factors.b, shape_b);
  return make_adapter(name, module, options, factors.a, factors.b);
}

/// The entries of a state dict whose names are below these modules.
StateDict entries_of(const Module& model, const std::set<std::string>& modules) {
  StateDict out;
  for (const auto& [name, tensor] : model.state_dict()) {
    const size_t dot = name.rfind('.');
    if (modules.contains(dot == name.npos ? "" : name.substr(0, dot))) out.add(name, tensor);
  }
  return out;
}

std::set<std::string> modules_of(const Module::Named<Tensor>& parameters) {
  std::set<std::string> out;
  for (const auto& [name, p] : parameters) {
    const size_t dot = name.rfind('.');
    out.insert(dot == name.npos ? "" : name.substr(0, dot));
  }
  return out;
}

/// Names for PEFT, which takes each also as the ending of a longer name. If that would be a module
/// without an adapter: a regular expression, which it compares with whole names.
json target_modules(const std::vector<std::string>& layers, Module& model) {
  const std::set<std::string> chosen(layers.begin(), layers.end());
  const auto is_ambiguous = [&](const auto& entry) {
    return !chosen.contains(entry.first) && std::ranges::any_of(layers, [&](const auto& layer) {
      return entry.first.ends_with("." + layer);
    });
  };
  if (!std::ranges::any_of(model.named_modules(), is_ambiguous)) return layers;
  std::string pattern;
  for (const std::string& layer : layers) {
    pattern += pattern.empty() ? "" : "|";
    for (const char c : layer) pattern += c == '.' ? std::string("\\.") : std::string(1, c);
  }
  return pattern;
}

}  // namespace

// --- writing -------------------------------------------------------------------------------------

StateDict Lora::state_dict() const {
  StateDict out;
  const auto add = [&](const std::string& name, const Tensor& t) {
    out.add(std::string(kPrefix) + name, t.detach());
  };
  for (const auto& adapter : adapters_) {
    const LoraLayer::Kind kind = adapter->layer.kind;
    add(below(adapter->name, name_in_file(Adapter::name_of_a(kind))), adapter->a);
    add(below(adapter->name, name_in_file(Adapter::name_of_b(kind))), adapter->b);
  }
  for (const auto& [name, t] : entries_of(*model_, modules_of(trained_))) add(name, t);
  return out;
}

void Lora::save(const std::string& folder) const {
  json ranks = json::object();
  bool transposed = false;
  for (const auto& adapter : adapters_) {
    if (adapter->rank() != options_.rank) ranks[adapter->name] = adapter->rank();
    transposed = transposed || adapter->layer.is_transposed;
  }
  std::set<std::string> trained = modules_of(trained_);
  trained.erase("");  // PEFT, which compares endings, would take it for every module
  const json config = {{"peft_type", "LORA"},
                       {"base_model_name_or_path", nullptr},
                       {"task_type", nullptr},
                       {"inference_mode", true},
                       {"r", options_.rank},
                       {"lora_alpha", number(options_.alpha)},
                       {"lora_dropout", options_.dropout},
                       {"use_rslora", options_.rank_stabilized},
                       {"target_modules", target_modules(layers(), *model_)},
                       {"modules_to_save", trained.empty() ? json() : json(trained)},
                       {"fan_in_fan_out", transposed},
                       {"rank_pattern", ranks},
                       {"bias", "none"}};
  make_folders(folder);
  safetensors::write(weights_file(folder), state_dict(), {{"format", "pt"}});
  write_file_atomic(config_file(folder), config.dump(2) + "\n");
}

// --- reading -------------------------------------------------------------------------------------

Lora load_lora(Module& model, const std::string& folder) {
  const LoraOptions options = read_config(config_file(folder));
  const std::string path = weights_file(folder);
  const FileEntries entries = sorted_entries(safetensors::read(path).tensors, path);
  const Module::Named<Module*> modules = model.named_modules();

  check_modules(entries.layers, modules, path);
  std::vector<std::shared_ptr<Adapter>> adapters;
  for (const auto& [name, module] : modules) {
    const auto at = entries.layers.find(name);
    if (at == entries.layers.end()) continue;
    adapters.push_back(read_adapter(name, at->second, *module, options, path));
  }
  const StateDict own = model.state_dict();
  for (const auto& [name, tensor] : entries.others) {
    LATHE_CHECK(ValueError, own.contains(name), path, ": the model has no entry ", in_quotes(name));
  }
  Module::Named<Tensor> trained;
  for (const auto& [name, p] : model.named_parameters()) {
    if (entries.others.contains(name)) trained.emplace_back(name, p);
  }
  try {
    model.load_state_dict(entries.others, {.strict = false});
  } catch (const ValueError& error) {
    LATHE_FAIL(ValueError, path, ": ", error.message());
  }
  return Lora(model, options, std::move(trained), std::move(adapters));
}

}  // namespace lathe::nn
