// Compares names, shapes and kinds of entries.
#include "lathe/nn/misfit.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "lathe/core/format.h"
#include "lathe/core/text/formatted.h"

namespace lathe::nn {
namespace {

std::string kind_text(const Tensor& tensor) { return concat(tensor.dtype(), tensor.shape()); }

// "3 are missing (a, b, c)"; "" for none
std::string some_names(const std::vector<std::string>& names, std::string_view one,
                       std::string_view many) {
  constexpr size_t kMostNames = 3;
  if (names.empty()) return "";
  const std::vector<std::string> first(
      names.begin(), names.begin() + static_cast<int64_t>(std::min(names.size(), kMostNames)));
  return formatted("{} {} ({}{})", names.size(), names.size() == 1 ? one : many,
                   joined(first, ", "), names.size() > kMostNames ? ", …" : "");
}

}  // namespace

bool same_kind(const Tensor& a, const Tensor& b) {
  return a.shape() == b.shape() && is_floating(a.dtype()) == is_floating(b.dtype());
}

std::string misfit_text(const StateDict& state, const StateDict& from_file, const Module& model) {
  std::vector<std::string> missing, other, unknown;
  const StateDict own = model.state_dict();
  for (const auto& [name, tensor] : own) {
    const Tensor* const found = state.find(name);
    if (found == nullptr) {
      missing.push_back(name);
    } else if (!same_kind(*found, tensor)) {
      other.push_back(formatted("{} {} instead of {}", name, kind_text(*found), kind_text(tensor)));
    }
  }
  for (const auto& [name, tensor] : from_file)
    if (!own.contains(name)) unknown.push_back(name);
  std::vector<std::string> parts;
  for (const std::string& part : {some_names(missing, "is missing", "are missing"),
                                  some_names(other, "has another shape or dtype in the file",
                                             "have another shape or dtype in the file")}) {
    if (!part.empty()) parts.push_back(part);
  }
  std::string text;
  if (!parts.empty())
    text = formatted("of the model's {} entries {}", own.size(), joined(parts, " and "));
  if (const std::string left = some_names(unknown, "of the file's is not in the model",
                                          "of the file's are not in the model");
      !left.empty())
    text += (text.empty() ? "" : "; ") + left;
  return text;
}

}  // namespace lathe::nn
