// Weights in safetensors files; see weights.h.
#include "lathe/nn/weights.h"

namespace lathe::nn {

void save(const Module& model, const std::string& path, const safetensors::Metadata& metadata) {
  safetensors::write(path, model.state_dict(), metadata);
}

LoadReport load(Module& model, const std::string& path, const LoadOptions& options) {
  const safetensors::Contents file = safetensors::read(path);
  try {
    return model.load_state_dict(file.tensors, options);
  } catch (const ValueError& error) {
    LATHE_FAIL(ValueError, path, ": ", error.message());
  }
}

}  // namespace lathe::nn
