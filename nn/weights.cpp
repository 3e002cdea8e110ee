// Weights in files: which entries of a file belong to the model, and what old .pth files lack.
#include "lathe/nn/weights.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>

#include "lathe/core/formats/safetensors_header.h"
#include "lathe/core/formats/tensor_file.h"
#include "lathe/core/function_ref.h"
#include "lathe/core/log.h"
#include "lathe/nn/checkpoint.h"
#include "lathe/ops/creation.h"

namespace lathe::nn {

void save(const Module& model, const std::string& path, const safetensors::Metadata& metadata) {
  for (const char* suffix : {".pth", ".pt", ".npz", ".onnx", ".bin", ".h5"}) {
    if (path.ends_with(suffix)) {
      warn("nn::save: ", path, " gets the format safetensors, though a name in ", suffix,
           " promises another one");
    }
  }
  safetensors::write(path, model.state_dict(), metadata);
}

namespace {

/// The entries of a file that are meant for `model`: all but the other sections of a checkpoint.
StateDict weights_in(const safetensors::Contents& file, const Module& model) {
  if (!checkpoint_parts(file.metadata).empty()) return checkpoint_section(file, "model");
  constexpr std::string_view kSections[] = {"optimizer.", "scheduler.", "scaler.", "ema.",
                                            "rng.",       "loader.",    "trainer."};
  const StateDict own = model.state_dict();
  StateDict out;
  for (const auto& [name, tensor] : file.tensors) {
    const auto begins = [&](std::string_view section) { return name.starts_with(section); };
    if (own.contains(name) || std::ranges::none_of(kSections, begins)) out.add(name, tensor);
  }
  return out;
}

constexpr std::string_view kCount = "num_batches_tracked";

/// Before version 0.4.1, PyTorch's batch norms did not count their batches. As PyTorch does, a
/// state dict from then gets zeros.
void add_batch_counts(StateDict& state, const Module& model) {
  for (const auto& [name, tensor] : model.state_dict()) {
    if (!name.ends_with(kCount) || state.contains(name)) continue;
    const std::string mean = name.substr(0, name.size() - kCount.size()) + "running_mean";
    if (state.contains(mean)) state.add_number(name, int64_t{0});
  }
}

// What wrappers put before every name, and what larger models call the one that is a part of them.
constexpr std::string_view kPrefixes[] = {"module.",   "_orig_mod.", "model.",
                                          "backbone.", "net.",       "encoder."};
constexpr auto kParts = std::span(kPrefixes).last<3>();

/// What stands before a name of the model: the beginning of `name` if it is one or more of the
/// prefixes and the rest is such a name; else "".
std::string_view prefix_of(std::string_view name, FunctionRef<bool(std::string_view)> is_own) {
  for (std::string_view rest = name; !is_own(rest);) {
    const auto* const found = std::ranges::find_if(
        kPrefixes, [&](std::string_view prefix) { return rest.starts_with(prefix); });
    if (found == std::end(kPrefixes)) return {};
    rest.remove_prefix(found->size());
    if (is_own(rest)) return name.substr(0, name.size() - rest.size());
  }
  return {};
}

/// `{k: v.half() for k, v in state_dict.items()}` also rounds the counts of batches, which are
/// integers again here. A count above f16's numbers is infinite, and unknown: 0, as of old files.
StateDict with_whole_counts(const StateDict& state) {
  StateDict out;
  for (const auto& [name, tensor] : state) {
    const bool is_rounded =
        name.ends_with(kCount) && tensor.numel() == 1 && is_floating(tensor.dtype());
    if (!is_rounded) {
      out.add(name, tensor);
      continue;
    }
    const auto count = tensor.item<double>();
    const bool is_known = count >= 0 && count <= static_cast<double>(kMostCounted);
    out.add(name, full(tensor.shape(), is_known ? std::llround(count) : 0, {.dtype = kI64}));
  }
  return out;
}

/// Whether all names of the model are there but counts of batches and, if others are there, those
/// of the last layer: a backbone has no head.
bool has_body(const StateDict& entries, const Module& model) {
  const auto parameters = model.named_parameters();
  if (parameters.empty()) return false;
  const std::string& last = parameters.back().first;
  const std::string head = last.substr(0, last.rfind('.') + 1);
  bool has_all = true, has_other = false;
  for (const auto& [name, tensor] : model.state_dict()) {
    const bool is_there = entries.contains(name), is_head = name.starts_with(head);
    if (!is_there && !is_head && !name.ends_with(kCount)) return false;
    has_all = has_all && (is_there || !is_head);
    has_other = has_other || (is_there && !is_head);
  }
  return has_all || has_other;
}

/// Takes a prefix off if no name fits without that. Names that do not begin with it stay, and so do
/// those that would be there twice. That of a part must leave the model's names: "encoder." may be
/// anything.
FileWeights without_prefix(StateDict state, const Module& model) {
  const StateDict own = model.state_dict();
  std::string_view prefix;
  for (const auto& [name, tensor] : state) {
    if (own.contains(name)) return {std::move(state), {}};
    if (prefix.empty())
      prefix = prefix_of(name, [&](std::string_view bare) { return own.contains(bare); });
  }
  if (prefix.empty()) return {std::move(state), {}};
  FileWeights out{{}, std::string(prefix)};
  for (const auto& [name, tensor] : state) {
    const std::string bare = name.starts_with(prefix) ? name.substr(prefix.size()) : name;
    out.entries.add(state.contains(bare) ? name : bare, tensor);
  }
  const bool is_of_part = std::ranges::any_of(
      kParts, [&](std::string_view part) { return prefix.find(part) != prefix.npos; });
  if (is_of_part && !has_body(out.entries, model)) return {std::move(state), {}};
  return out;
}

}  // namespace

FileWeights read_weights(const std::string& path, const Module& model, const std::string& section) {
  const bool is_torch = tensor_file_format(path) == TensorFileFormat::kPth;
  const safetensors::Contents file = read_tensor_file(path, section);
  FileWeights out = without_prefix(with_whole_counts(weights_in(file, model)), model);
  if (is_torch) add_batch_counts(out.entries, model);
  return out;
}

std::optional<Shape> stored_shape(const std::string& path, std::string_view name) {
  const safetensors::Header header = safetensors::read_header(path);
  const auto is_name = [&](std::string_view bare) { return bare == name; };
  std::optional<Shape> wrapped;
  for (const safetensors::HeaderEntry& entry : header.entries) {
    if (entry.name == name) return entry.shape;
    if (!wrapped && !prefix_of(entry.name, is_name).empty()) wrapped = entry.shape;
  }
  return wrapped;
}

LoadReport load(Module& model, const std::string& path, const LoadOptions& options) {
  const FileWeights weights = read_weights(path, model);
  try {
    return model.load_state_dict(weights.entries, options);
  } catch (const ValueError& error) {
    LATHE_FAIL(ValueError, path, ": ", error.message());
  }
}

}  // namespace lathe::nn
