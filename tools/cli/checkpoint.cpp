#include "lathe/tools/cli/checkpoint.h"

#include "lathe/core/safetensors.h"

namespace lathe::cli {

void save_weights(const std::filesystem::path& path, const StateDict& state, const Milestone& at) {
  safetensors::write(path.string(), state,
                     {{"lathe.model", at.model},
                      {"lathe.dataset", at.dataset},
                      {"lathe.epoch", std::to_string(at.epoch)},
                      {"lathe.step", std::to_string(at.step)}});
}

}  // namespace lathe::cli
