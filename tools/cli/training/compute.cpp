// The set-up of a computation: device, threads, convolutions, model, weights.
#include "lathe/tools/cli/training/compute.h"

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/recompute.h"
#include "lathe/core/cuda.h"
#include "lathe/core/math_mode.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/thread_pool.h"
#include "lathe/nn/init.h"
#include "lathe/ops/conv/search/cudnn_settings.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/defaults.h"
#include "lathe/tools/cli/settings/models.h"
#include "lathe/tools/cli/training/loss_scale.h"
#include "lathe/tools/cli/training/model_file.h"

namespace lathe::cli {
namespace {

constexpr const char* kWithoutOneDnn =
    "this build is without oneDNN, with which a ResNet-18 trains several times as fast; install "
    "libdnnl-dev and build again";

Device device_of(const std::string& name) try {
  if (name == "auto") return cuda_is_available() ? Device("cuda:0") : kCPU;
  const Device device(name);
  if (device.is_cuda() && device.index >= cuda::device_count()) {
    throw CommandError(
        ExitCode::kDevice,
        formatted("--device {}: {}", name,
                  cuda_is_available() ? formatted("this machine has {} GPUs", cuda::device_count())
                                      : cuda::unavailable_reason()));
  }
  return device;
} catch (const ValueError& e) {
  throw UsageError(formatted("--{}; auto takes a GPU if there is one", e.message()));
}

}  // namespace

std::string device_remark(const Settings& settings) {
  if (settings.device != "auto" || cuda_is_available()) return {};
  return formatted("device: cpu, because {}", cuda::unavailable_reason());
}

std::string convolution_text(const cpu::OneDnnInfo& fast) {
  if (!fast.problem.empty()) return fast.problem;
  if (fast.library.empty()) return formatted("Eigen, because {}", kWithoutOneDnn);
  return formatted("{}: direct{}{}{}", fast.library, fast.winograd ? ", Winograd" : "",
                   fast.bf16 ? ", bf16" : "", fast.winograd ? "" : "; Winograd for NHWC only");
}

std::string convolution_remark(const cpu::OneDnnInfo& fast, Device device) {
  if (device.is_cuda() || !fast.library.empty()) return {};
  return formatted("slow convolutions: {}", kWithoutOneDnn);
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
  if (is_model_file(*settings.model)) return model_of_file(settings, shape);
  const int64_t side = settings.image_size.value_or(32);
  const bool small = (settings.stem ? *settings.stem : stem_for(side)) == "cifar";
  return make_named_model(*settings.model,
                          {.classes = shape.classes,
                           .in_channels = shape.in_channels,
                           .image_size = side,
                           .stem = small ? nn::Stem::kCifar : nn::Stem::kImagenet});
}

std::unique_ptr<nn::Module> make_empty_model(const Settings& settings, const ModelShape& shape) {
  const nn::init::Skip skip;
  return make_model(settings, shape);
}

ModelShape shape_of_weights(const StateDict& weights,
                            FunctionRef<std::unique_ptr<nn::Module>(const ModelShape&)> make) {
  const nn::init::Skip skip;
  // A size that is a + b·n for n classes (or channels) is known at n = 1 and at n = 2.
  const ModelShape one{.classes = 1, .in_channels = 1};
  const StateDict smallest = make(one)->state_dict();
  const auto told_by = [&](const ModelShape& two) {
    const StateDict larger = make(two)->state_dict();
    for (const auto& [name, small] : smallest) {
      const Tensor *const large = larger.find(name), *const found = weights.find(name);
      if (large == nullptr || found == nullptr || found->ndim() != small.ndim()) continue;
      for (int d = 0; d < small.ndim(); ++d) {
        const int64_t step = large->dim(d) - small.dim(d);
        if (step > 0) return 1 + (found->dim(d) - small.dim(d)) / step;
      }
    }
    return int64_t{1};
  };
  return {.classes = told_by({.classes = 2, .in_channels = 1}),
          .in_channels = told_by({.classes = 1, .in_channels = 2})};
}

MemoryFormat filter_format(Device device, const Settings& settings) {
  return device.is_cuda() && settings.layout == "nhwc" ? kChannelsLast : kContiguous;
}

void place_model(nn::Module& model, Device device, const Settings& settings) {
  model.to(device).to(filter_format(device, settings));
}

std::optional<nn::Views> views_of(const Settings& settings) {
  if (settings.tta == "none") return {};
  return settings.tta == "mirror" ? nn::Views::kMirror : nn::Views::kMirrorShift;
}

std::unique_ptr<nn::Module> with_views(std::unique_ptr<nn::Module> model,
                                       const Settings& settings) {
  const auto views = views_of(settings);
  if (!views) return model;
  return std::make_unique<nn::AveragedViews>(std::move(model), *views);
}

Tensor in_layout(const Tensor& x, const Settings& settings) {
  return settings.layout == "nhwc" ? x.contiguous(kChannelsLast) : x;
}

Tensor scores_of(nn::Module& model, const Tensor& x, const Settings& settings) {
  const Recompute again(settings.recompute);
  const Autocast half(x.device(), settings.amp == "bf16" ? kBF16 : kF16, settings.amp != "off");
  return model(in_layout(x, settings)).to(kF32);
}

train::LossFunction loss_of(nn::Module& model, const Settings& settings) {
  return [&model, &settings](const Tensors& batch) {
    const Tensor scores = model(in_layout(batch[0], settings)).to(kF32);
    return train::Result{
        .loss = cross_entropy(scores, batch[1], {.label_smoothing = settings.label_smoothing}),
        .output = scores,
        .target = batch[1]};
  };
}

train::StepOptions step_options(const Settings& settings) {
  return {.amp = settings.amp,
          .scaling = scaler_options(settings),
          .accumulate = settings.accumulate,
          .clip_grad_norm = settings.clip_grad_norm,
          .recompute = settings.recompute,
          .capture = settings.capture};
}

}  // namespace lathe::cli
