// Facts about a model and a machine.
#include "lathe/tools/cli/observe/doctor_facts.h"

#include "lathe/core/cuda.h"
#include "lathe/core/thread_pool.h"
#include "lathe/nn/batch_norm.h"
#include "lathe/nn/conv.h"
#include "lathe/ops/conv/cpu/conv2d_dnnl.h"

namespace lathe::cli {
namespace {

/// The bias of a convolution, which may be undefined; null for other modules.
const Tensor* bias_of(const nn::Module& module) {
  if (const auto* conv = dynamic_cast<const nn::Conv2d*>(&module)) return &conv->bias;
  if (const auto* conv = dynamic_cast<const nn::Conv1d*>(&module)) return &conv->bias;
  return nullptr;
}

}  // namespace

nn::Module::Named<nn::Module*> convolutions_before_norm(nn::Module& model) {
  nn::Module::Named<nn::Module*> found;
  for (const auto& [name, module] : model.named_modules()) {
    const auto children = module->named_children();
    for (size_t i = 0; i + 1 < children.size(); ++i) {
      const auto& [child, convolution] = children[i];
      if (bias_of(*convolution) == nullptr ||
          dynamic_cast<const nn::BatchNorm*>(children[i + 1].second) == nullptr)
        continue;
      found.emplace_back(name.empty() ? child : name + "." + child, convolution);
    }
  }
  return found;
}

std::vector<std::string> biases_before_norm(nn::Module& model) {
  std::vector<std::string> found;
  for (const auto& [name, convolution] : convolutions_before_norm(model)) {
    if (bias_of(*convolution)->defined()) found.push_back(name);
  }
  return found;
}

MachineFacts machine_facts(Device device) {
  constexpr int kFirstWithTensorCores = 7;  // Volta
  MachineFacts facts{.gpu = device.is_cuda(),
                     .processors = usable_cpus(),
                     .fast_convolutions = !cpu::onednn_info().library.empty()};
  if (facts.gpu) {
    const cuda::DeviceInfo info = cuda::device_info(device.index);
    facts.tensor_cores = info.major >= kFirstWithTensorCores;
    facts.memory_bytes = static_cast<int64_t>(info.total_bytes);
  }
  return facts;
}

}  // namespace lathe::cli
