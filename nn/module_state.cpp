// Module::state_dict() and load_state_dict(): all entries are checked before the first is copied.
#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "lathe/core/copy.h"
#include "lathe/nn/module.h"

namespace lathe::nn {

StateDict Module::state_dict() const {
  StateDict out;
  std::unordered_set<const TensorImpl*> known;
  for_each_module("", [&](const std::string& prefix, const Module& module) {
    for (const auto* list : {&module.parameters_, &module.buffers_}) {
      for (const auto& [name, t] : *list) {
        if (known.insert(t.handle().get()).second) out.add(prefix + name, t.detach());
      }
    }
  });
  return out;
}

Module::Named<std::string> Module::shared_names() const {
  Named<std::string> out;
  std::unordered_map<const TensorImpl*, std::string> first;
  for_each_module("", [&](const std::string& prefix, const Module& module) {
    for (const auto* list : {&module.parameters_, &module.buffers_}) {
      for (const auto& [name, t] : *list) {
        const auto [known, is_new] = first.try_emplace(t.handle().get(), prefix + name);
        if (!is_new) out.emplace_back(prefix + name, known->second);
      }
    }
  });
  return out;
}

namespace {

/// "; 2 missing: a, b" for the first few names, each with `prefix` before it.
void append_names(std::string& text, const char* what, const std::vector<std::string>& names,
                  const std::string& prefix) {
  constexpr size_t kMost = 10;
  if (names.empty()) return;
  text += concat(text.empty() ? "" : "; ", names.size(), " ", what, ":");
  for (size_t i = 0; i < names.size() && i < kMost; ++i)
    text += concat(i == 0 ? " " : ", ", prefix, names[i]);
  if (names.size() > kMost) text += ", …";
}

/// Both tensors view the same elements with the same strides.
bool same_place(const Tensor& a, const Tensor& b) {
  return a.shares_storage(b) && a.offset() == b.offset() && a.strides() == b.strides() &&
         a.dtype() == b.dtype();
}

/// Of the copies {to, from}: those that would change nothing are dropped, and a source that another
/// copy would overwrite is cloned.
void detach_sources(std::vector<std::pair<Tensor, Tensor>>& copies) {
  std::erase_if(copies, [](const auto& copy) { return same_place(copy.first, copy.second); });
  std::unordered_set<const Storage*> written;
  for (const auto& [to, from] : copies) written.insert(to.impl().storage.get());
  for (auto& [to, from] : copies) {
    if (!written.contains(from.impl().storage.get())) continue;
    const Tensor own = empty_like(from);
    copy_values(own, from);
    from = own;
  }
}

}  // namespace

LoadReport Module::load_state_dict(const StateDict& state, const LoadOptions& options) {
  LoadReport report;
  std::vector<std::string> misfits;
  std::vector<std::pair<Tensor, Tensor>> copies;  // to, from
  const StateDict own = state_dict();
  const Named<std::string> shared = shared_names();
  for (const auto& [name, to] : own) {
    const Tensor* from = state.find(name);
    for (const auto& [other, first] : shared) {
      if (from == nullptr && first == name) from = state.find(other);
    }
    if (from == nullptr) {
      report.missing.push_back(name);
    } else if (!(from->shape() == to.shape()) ||
               is_floating(from->dtype()) != is_floating(to.dtype())) {
      misfits.push_back(concat(name, " (", *from, " instead of ", to, ")"));
    } else {
      copies.emplace_back(to, *from);
    }
  }
  for (const auto& [name, tensor] : state) {
    const bool is_shared =
        std::ranges::any_of(shared, [&](const auto& entry) { return entry.first == name; });
    if (!own.contains(name) && !is_shared) report.unexpected.push_back(name);
  }

  std::string problems;
  const std::string prefix = state.full_name("");
  if (options.strict) append_names(problems, "missing", report.missing, prefix);
  if (options.strict) append_names(problems, "unexpected", report.unexpected, prefix);
  append_names(problems, "of another shape or dtype", misfits, prefix);
  LATHE_CHECK(ValueError, problems.empty(), "load_state_dict: ", type_name(),
              " does not take this state: ", problems);
  detach_sources(copies);
  for (const auto& [to, from] : copies) {
    copy_values(to, from);
    to.bump_version();
  }
  return report;
}

}  // namespace lathe::nn
