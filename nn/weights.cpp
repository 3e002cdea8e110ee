// Weights in safetensors files; see weights.h.
#include "lathe/nn/weights.h"

#include <algorithm>
#include <string_view>

#include "lathe/nn/checkpoint.h"

namespace lathe::nn {

void save(const Module& model, const std::string& path, const safetensors::Metadata& metadata) {
  safetensors::write(path, model.state_dict(), metadata);
}

namespace {

/// What of a file's entries is meant for `model`: all but the other sections of a checkpoint.
StateDict weights_in(const safetensors::Contents& file, const Module& model) {
  if (!checkpoint_parts(file.metadata).empty()) return checkpoint_section(file, "model");
  constexpr std::string_view kSections[] = {"optimizer.", "scheduler.", "scaler.",
                                            "ema.",       "rng.",       "loader."};
  const StateDict own = model.state_dict();
  StateDict out;
  for (const auto& [name, tensor] : file.tensors) {
    const auto begins = [&](std::string_view section) { return name.starts_with(section); };
    if (own.contains(name) || std::ranges::none_of(kSections, begins)) out.add(name, tensor);
  }
  return out;
}

}  // namespace

LoadReport load(Module& model, const std::string& path, const LoadOptions& options) {
  const safetensors::Contents file = safetensors::read(path);
  try {
    return model.load_state_dict(weights_in(file, model), options);
  } catch (const ValueError& error) {
    LATHE_FAIL(ValueError, path, ": ", error.message());
  }
}

}  // namespace lathe::nn
