// The set-up of a computation: device, threads, convolutions, model, weights.
#include "lathe/tools/cli/training/compute.h"

#include <fmt/format.h>

#include "lathe/autograd/autocast.h"
#include "lathe/core/cuda.h"
#include "lathe/core/math_mode.h"
#include "lathe/core/thread_pool.h"
#include "lathe/nn/resnet.h"
#include "lathe/nn/weights.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/conv_search/cudnn_settings.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/recipe.h"

namespace lathe::cli {
namespace {

// By what factor: docs/build.md.
constexpr const char* kWithoutOneDnn =
    "this build is without oneDNN, with which a ResNet-18 trains several times as fast; install "
    "libdnnl-dev and build again";

Device device_of(const std::string& name) try {
  if (name == "auto") return cuda_is_available() ? Device("cuda:0") : kCPU;
  const Device device(name);
  if (device.is_cuda() && device.index >= cuda::device_count()) {
    throw CommandError(ExitCode::kDevice,
                       fmt::format("--device {}: {}", name,
                                   cuda_is_available() ? fmt::format("this machine has {} GPUs",
                                                                     cuda::device_count())
                                                       : cuda::unavailable_reason()));
  }
  return device;
} catch (const ValueError& e) {
  throw UsageError("--" + e.message());
}

}  // namespace

std::string device_remark(const Settings& settings) {
  if (settings.device != "auto" || cuda_is_available()) return {};
  return fmt::format("device: cpu, because {}", cuda::unavailable_reason());
}

std::string convolution_text(const cpu::FastConv2dInfo& fast) {
  if (!fast.problem.empty()) return fast.problem;
  if (fast.library.empty()) return fmt::format("Eigen, because {}", kWithoutOneDnn);
  return fmt::format("{}: direct{}{}{}", fast.library, fast.winograd ? ", Winograd" : "",
                     fast.bf16 ? ", bf16" : "", fast.winograd ? "" : "; no Winograd");
}

std::string convolution_remark(const cpu::FastConv2dInfo& fast, Device device) {
  if (device.is_cuda() || !fast.library.empty()) return {};
  return fmt::format("slow convolutions: {}", kWithoutOneDnn);
}

Device prepare_compute(Settings& settings) {
  const Device device = device_of(settings.device);
  if (device.is_cuda()) complete_for_gpu(settings);
  if (settings.threads) set_num_threads(static_cast<int>(*settings.threads));
  cpu::set_conv_exact(settings.conv_exact);
  set_tf32(settings.tf32.value_or(false));
  set_deterministic(settings.deterministic);
  cudnn::set_benchmark(settings.cudnn_benchmark.value_or(false));
  cudnn::set_workspace_limit(settings.workspace_limit << 20);
  cudnn::set_algo_cache(settings.algo_cache);
  return device;
}

std::unique_ptr<nn::Module> make_model(const Settings& settings, const ModelShape& shape) {
  const std::string& name = *settings.model;
  const nn::ResNetOptions large{
      .classes = shape.classes,
      .stem = settings.stem == "cifar" ? nn::Stem::kCifar : nn::Stem::kImagenet,
      .in_channels = shape.in_channels};
  const nn::CifarResNetOptions small{.classes = shape.classes, .in_channels = shape.in_channels};
  // A module can be neither copied nor moved; `new` builds the function's result in place.
  if (name == "resnet18") return std::unique_ptr<nn::Module>(new auto(nn::resnet18(large)));
  if (name == "resnet34") return std::unique_ptr<nn::Module>(new auto(nn::resnet34(large)));
  if (name == "resnet8") return std::unique_ptr<nn::Module>(new auto(nn::resnet8(small)));
  if (name == "resnet20") return std::unique_ptr<nn::Module>(new auto(nn::resnet20(small)));
  if (name == "resnet32") return std::unique_ptr<nn::Module>(new auto(nn::resnet32(small)));
  if (name == "resnet44") return std::unique_ptr<nn::Module>(new auto(nn::resnet44(small)));
  return std::unique_ptr<nn::Module>(new auto(nn::resnet56(small)));
}

MemoryFormat filter_format(Device device, const Settings& settings) {
  return device.is_cuda() && settings.layout == "nhwc" ? kChannelsLast : kContiguous;
}

void place_model(nn::Module& model, Device device, const Settings& settings) {
  model.to(device).to(filter_format(device, settings));
}

void load_weights(nn::Module& model, const std::string& path) try {
  nn::load(model, path);
} catch (const FileError& e) {
  throw CommandError(ExitCode::kData, e.message());
} catch (const ValueError& e) {
  throw CommandError(ExitCode::kData, e.message());
}

Tensor in_layout(const Tensor& x, const Settings& settings) {
  return settings.layout == "nhwc" ? x.contiguous(kChannelsLast) : x;
}

Tensor scores_of(nn::Module& model, const Tensor& x, const Settings& settings) {
  const Autocast half(x.device(), settings.amp == "bf16" ? kBF16 : kF16, settings.amp != "off");
  return model(in_layout(x, settings)).to(kF32);
}

}  // namespace lathe::cli
