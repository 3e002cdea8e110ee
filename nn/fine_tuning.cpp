// The head of a model, loading all weights but the head's, and freezing parameters by name.
#include "lathe/nn/fine_tuning.h"

#include <fnmatch.h>

#include <algorithm>
#include <unordered_set>

#include "lathe/core/error.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/suggestion.h"
#include "lathe/nn/weights.h"

namespace lathe::nn {
namespace {

constexpr std::string_view kBackbone = "backbone";

// The names of parameters and of all modules that have some below them.
std::vector<std::string> parameter_names(const Module& model) {
  std::vector<std::string> names;
  for (const auto& [name, tensor] : model.named_parameters()) {
    for (size_t dot = name.find('.'); dot != name.npos; dot = name.find('.', dot + 1)) {
      const std::string module = name.substr(0, dot);
      if (std::ranges::find(names, module) == names.end()) names.push_back(module);
    }
    names.push_back(name);
  }
  return names;
}

[[noreturn]] void fail_without_match(const std::string& pattern, const Module& model,
                                     std::string_view what) {
  const std::vector<std::string> names = parameter_names(model);
  std::string letters = pattern;
  std::erase(letters, '*');
  std::string hint = suggestion(letters, {names.begin(), names.end()});
  if (hint.empty()) {
    std::vector<std::string> first;
    for (const std::string& name : names) {
      if (name.find('.') == name.npos) first.push_back(name);
    }
    hint = formatted("; the model has {}", joined(first, ", "));
    if (const std::string head = head_of(model); !head.empty())
      hint += formatted(", and \"backbone\" means all but {}", head);
  }
  LATHE_FAIL(ValueError, what, ": \"", pattern, "\" matches no parameter", hint);
}

using Chosen = std::unordered_set<const TensorImpl*>;

void freeze_chosen(const Module& model, const Chosen& chosen, Frozen& out) {
  for (const auto& [name, tensor] : model.named_parameters()) {
    if (!chosen.contains(tensor.handle().get()) || !tensor.requires_grad()) continue;
    tensor.requires_grad_(false);
    ++out.parameters;
    out.values += tensor.numel();
  }
}

/// The batch norms whose parameters are all frozen. `bare`: also those that have none.
std::vector<Module*> frozen_norms(Module& model, bool bare) {
  std::vector<Module*> out;
  for (const auto& [path, module] : model.named_modules()) {
    if (!module->has_running_statistics()) continue;
    const Tensors own = module->parameters();
    const bool all = std::ranges::none_of(own, &Tensor::requires_grad);
    if (all && (bare || !own.empty())) out.push_back(module);
  }
  return out;
}

}  // namespace

bool matches_pattern(const std::string& pattern, const std::string& name) {
  for (size_t end = name.find('.');; end = name.find('.', end + 1)) {
    if (fnmatch(pattern.c_str(), name.substr(0, end).c_str(), 0) == 0) return true;
    if (end == name.npos) return false;
  }
}

bool is_below(std::string_view name, std::string_view module) {
  return module.empty() ||
         (name.starts_with(module) && name.substr(module.size()).starts_with('.'));
}

std::string head_of(const Module& model) {
  std::vector<std::string> names;
  if (const auto* const known = dynamic_cast<const KnowsHead*>(&model))
    names = known->head_parameters();
  if (names.empty()) {
    const auto parameters = model.named_parameters();
    if (parameters.empty()) return {};
    names = {parameters.back().first};
  }
  const auto module_of = [](const std::string& name) {
    const size_t dot = name.rfind('.');
    return dot == name.npos ? "" : name.substr(0, dot);
  };
  const std::string head = module_of(names[0]);
  const bool is_one =
      std::ranges::all_of(names, [&](const auto& name) { return module_of(name) == head; });
  return is_one ? head : "";
}

std::pair<Tensors, Tensors> split_by_head(const Module& model, const Tensors& parameters) {
  const std::string head = head_of(model);
  std::unordered_set<const TensorImpl*> of_head;
  for (const auto& [name, tensor] : model.named_parameters()) {
    if (is_below(name, head)) of_head.insert(tensor.handle().get());
  }
  std::pair<Tensors, Tensors> out;
  for (const Tensor& p : parameters)
    (of_head.contains(p.handle().get()) ? out.second : out.first).push_back(p);
  return out;
}

WithoutHead without_head(const StateDict& from_file, const Module& model) {
  WithoutHead out;
  const std::string head = head_of(model);
  const StateDict own = model.state_dict();
  for (const auto& [name, tensor] : from_file) {
    if (is_below(name, head) || !own.contains(name)) {
      out.unused.emplace_back(name, tensor);
    } else {
      out.state.add(name, tensor);
    }
  }
  for (const auto& [name, tensor] : own) {
    if (!is_below(name, head)) continue;
    out.state.add(name, tensor);
    out.fresh.emplace_back(name, tensor);
  }
  return out;
}

void load_without_head(Module& model, const std::string& path) {
  const FileWeights file = read_weights(path, model);
  try {
    model.load_state_dict(without_head(file.entries, model).state);
  } catch (const ValueError& e) {
    LATHE_FAIL(ValueError, path, ": ", e.message());
  }
}

void Frozen::hold() const {
  for (Module* const norm : norms) norm->eval();
}

Module::Named<Tensor> matching_parameters(const Module& model,
                                          const std::vector<std::string>& patterns,
                                          std::string_view what) {
  const auto parameters = model.named_parameters();
  const std::string head = head_of(model);
  std::vector<bool> chosen(parameters.size());
  for (const std::string& pattern : patterns) {
    bool any = false;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::string& name = parameters[i].first;
      if (pattern == kBackbone ? is_below(name, head) : !matches_pattern(pattern, name)) continue;
      any = chosen[i] = true;
    }
    if (!any) fail_without_match(pattern, model, what);
  }
  Module::Named<Tensor> out;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (chosen[i]) out.push_back(parameters[i]);
  }
  return out;
}

Frozen freeze_all_but(Module& model, const Tensors& trained) {
  Chosen frozen;
  for (const Tensor& p : model.parameters()) frozen.insert(p.handle().get());
  for (const Tensor& p : trained) frozen.erase(p.handle().get());
  Frozen out;
  freeze_chosen(model, frozen, out);
  out.norms = frozen_norms(model, true);
  return out;
}

Frozen freeze(Module& model, const std::vector<std::string>& patterns) {
  Frozen out;
  const auto matching = matching_parameters(model, patterns, "freeze");
  const size_t all = model.parameters().size();
  LATHE_CHECK(ValueError, matching.empty() || matching.size() < all, "freeze ",
              joined(patterns, ","), " leaves nothing to train: all ", all, " parameters match");
  Chosen chosen;
  for (const auto& [name, tensor] : matching) chosen.insert(tensor.handle().get());
  freeze_chosen(model, chosen, out);
  if (out.parameters > 0) out.norms = frozen_norms(model, false);
  return out;
}

}  // namespace lathe::nn
