// add_lora(): finds the layers, checks everything, then attaches adapters. Lora: what a model has.
#include "lathe/nn/lora.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/suggestion.h"
#include "lathe/nn/lora_adapter.h"

namespace lathe::nn {

namespace {

using Named = Module::Named<Module*>;

/// Whether all parameters of the module's own are among these.
bool trains_in_full(const Module& module, const std::unordered_set<const TensorImpl*>& trained) {
  const Tensors own = module.parameters();
  return !own.empty() && std::ranges::all_of(own, [&](const Tensor& p) {
    return trained.contains(p.handle().get());
  });
}

[[noreturn]] void fail_without_layer(const std::string& target, const Named& modules,
                                     const std::unordered_set<const TensorImpl*>& trained) {
  std::string letters = target;
  std::erase(letters, '*');
  std::vector<std::string_view> names;
  std::string_view layer;
  for (const auto& [name, module] : modules) {
    LATHE_CHECK(ValueError,
                !matches_pattern(target, name) || !module->lora_layer() ||
                    !trains_in_full(*module, trained),
                "add_lora: \"", target, "\" matches \"", name,
                "\", which LoraOptions::trained names; it trains in full, without an adapter");
    LATHE_CHECK(
        ValueError, !matches_pattern(target, name), "add_lora: \"", target, "\" matches \"", name,
        "\" (", module->type_name(),
        "), but only a Linear, an Embedding or a Conv2d with one group can have an adapter");
    LATHE_CHECK(ValueError, !name.ends_with("." + target), "add_lora: \"", target,
                "\" matches no module; did you mean *.", target, "?");
    names.push_back(name);
    if (layer.empty() && module->lora_layer()) layer = name;
  }
  std::string hint = suggestion(letters, names);
  if (hint.empty() && !layer.empty()) hint = formatted("; {} is a layer of the model", layer);
  LATHE_FAIL(ValueError, "add_lora: \"", target, "\" matches no module", hint);
}

void check(const LoraOptions& o) {
  LATHE_CHECK(ValueError, o.rank > 0, "add_lora: rank must be positive, got ", o.rank);
  LATHE_CHECK(ValueError, o.alpha > 0 && std::isfinite(o.alpha),
              "add_lora: alpha must be positive, got ", o.alpha);
  LATHE_CHECK(ValueError, o.dropout >= 0 && o.dropout < 1,
              "add_lora: dropout must be in [0,1), got ", o.dropout);
  LATHE_CHECK(ValueError, !o.targets.empty(), "add_lora: no targets are given");
}

}  // namespace

Lora::Lora(Lora&&) noexcept = default;
Lora& Lora::operator=(Lora&&) noexcept = default;
Lora::~Lora() = default;

Lora::Lora(Module& model, const LoraOptions& options, Module::Named<Tensor> trained,
           std::vector<std::shared_ptr<Adapter>> adapters)
    : model_(&model),
      options_(options),
      adapters_(std::move(adapters)),
      trained_(std::move(trained)) {
  Tensors all = trained_beside_adapters(model);
  for (const auto& adapter : adapters_) adapter->attach();
  for (const auto& [name, p] : trained_) p.requires_grad_();
  for (const Tensor& p : parameters()) all.push_back(p);
  frozen_ = freeze_all_but(model, all);
}

Lora add_lora(Module& model, const LoraOptions& options) {
  check(options);
  Module::Named<Tensor> named = matching_parameters(model, options.trained, "add_lora");
  std::unordered_set<const TensorImpl*> trained;
  for (const auto& [name, p] : named) trained.insert(p.handle().get());
  const Named modules = model.named_modules();
  std::vector<bool> chosen(modules.size());
  for (const std::string& target : options.targets) {
    bool any = false;
    for (size_t i = 0; i < modules.size(); ++i) {
      const auto& [name, module] = modules[i];
      if (!matches_pattern(target, name) || !module->lora_layer()) continue;
      if (!trains_in_full(*module, trained)) any = chosen[i] = true;
    }
    if (!any) fail_without_layer(target, modules, trained);
  }
  for (size_t i = 0; i < modules.size(); ++i) {
    if (chosen[i]) check_has_no_adapter(modules[i].first, *modules[i].second);
  }
  std::vector<std::shared_ptr<Adapter>> adapters;
  for (size_t i = 0; i < modules.size(); ++i) {
    if (chosen[i]) adapters.push_back(make_adapter(modules[i].first, *modules[i].second, options));
  }
  return Lora(model, options, std::move(named), std::move(adapters));
}

std::vector<std::string> Lora::layers() const {
  std::vector<std::string> out;
  for (const auto& adapter : adapters_) out.push_back(adapter->name);
  return out;
}

Tensors Lora::parameters() const {
  Tensors out;
  for (const auto& adapter : adapters_) {
    out.push_back(adapter->a);
    out.push_back(adapter->b);
  }
  for (const auto& [name, p] : trained_) out.push_back(p);
  return out;
}

void Lora::merge() {
  LATHE_CHECK(StateError, !is_merged_, "Lora: the adapters are merged already");
  std::unordered_map<const TensorImpl*, std::vector<std::string>> places;
  for (const auto& [path, module] : model_->named_modules()) {
    for (const auto& [name, p] : module->named_parameters()) {
      const bool is_own = name.find('.') == name.npos;
      if (is_own) places[p.handle().get()].push_back(below(path, name));
    }
  }
  Tensors merged;
  for (const auto& adapter : adapters_) {
    const std::vector<std::string>& names = places[adapter->weight_now().handle().get()];
    LATHE_CHECK(StateError, names.size() < 2, "Lora: ", joined(names, " and "),
                " are one tensor; merging the adapter of ", adapter->name,
                " would change the other layer, too");
    merged.push_back(adapter->merged());
  }
  for (size_t i = 0; i < merged.size(); ++i) adapters_[i]->merge(merged[i]);
  is_merged_ = true;
}

void Lora::unmerge() {
  LATHE_CHECK(StateError, is_merged_, "Lora: the adapters are not merged");
  std::vector<Adapter::Restored> restored;
  for (const auto& adapter : adapters_) {
    check_has_no_adapter(adapter->name, *adapter->module);
    restored.push_back(adapter->restored());
  }
  for (size_t i = 0; i < restored.size(); ++i) adapters_[i]->unmerge(restored[i]);
  is_merged_ = false;
}

}  // namespace lathe::nn
