// Weights in files: which entries of a file belong to the model, and what old .pth files lack.
#include "lathe/nn/weights.h"

#include <algorithm>
#include <string_view>

#include "lathe/core/formats/tensor_file.h"
#include "lathe/core/log.h"
#include "lathe/nn/checkpoint.h"

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

/// Before version 0.4.1, PyTorch's batch norms did not count their batches. As PyTorch does, a
/// state dict from then gets zeros.
void add_batch_counts(StateDict& state, const Module& model) {
  constexpr std::string_view kCount = "num_batches_tracked";
  for (const auto& [name, tensor] : model.state_dict()) {
    if (!name.ends_with(kCount) || state.contains(name)) continue;
    const std::string mean = name.substr(0, name.size() - kCount.size()) + "running_mean";
    if (state.contains(mean)) state.add_number(name, int64_t{0});
  }
}

}  // namespace

LoadReport load(Module& model, const std::string& path, const LoadOptions& options) {
  const bool is_torch = tensor_file_format(path) == TensorFileFormat::kPth;
  const safetensors::Contents file = read_tensor_file(path);
  StateDict weights = weights_in(file, model);
  if (is_torch) add_batch_counts(weights, model);
  try {
    return model.load_state_dict(weights, options);
  } catch (const ValueError& error) {
    LATHE_FAIL(ValueError, path, ": ", error.message());
  }
}

}  // namespace lathe::nn
