// The set-up of every command that computes: threads, device, convolutions, and the model.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "lathe/core/device.h"
#include "lathe/core/function_ref.h"
#include "lathe/core/tensor.h"
#include "lathe/nn/averaged_views.h"
#include "lathe/nn/module.h"
#include "lathe/ops/conv/cpu/conv2d_dnnl.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/train/step.h"

namespace lathe::cli {

/// Applies --threads, --device and the settings of convolutions. On a GPU it chooses the open
/// settings (complete_for_gpu).   → the device
/// throws: UsageError for a name that is no device; NoCudaError or DeviceError for a device that
/// does not exist.
Device prepare_compute(Settings& settings);

/// With --device auto, a line that says why the CPU was chosen; otherwise "".
std::string device_remark(const Settings& settings);

/// Names the library that computes convolutions on the CPU: "oneDNN 2.6.3: direct, Winograd, bf16".
std::string convolution_text(const cpu::OneDnnInfo& fast);

/// In a build without oneDNN, a line that says how much slower training on this device is; "" if it
/// is not slower.
std::string convolution_remark(const cpu::OneDnnInfo& fast, Device device);

struct ModelShape {
  int64_t classes = 10, in_channels = 3;
};

/// The model that --model and --stem name for images of --image-size, on the CPU, with values drawn
/// from the default generator. If no stem is chosen, the image size decides it. If --model names a
/// file (model_file.h), the model has the file's values.
/// throws: UsageError for an image size that the model does not take; what model_of_file() throws.
std::unique_ptr<nn::Module> make_model(const Settings& settings, const ModelShape& shape);
/// Like make_model(), for a model whose weights are loaded next: it draws no random numbers.
std::unique_ptr<nn::Module> make_empty_model(const Settings& settings, const ModelShape& shape);

/// The numbers of classes and channels for which a model has weights of these shapes. `make` makes
/// the model for given numbers. shape_of_weights() finds out which sizes of its weights grow with
/// the classes or channels, and compares these sizes.
ModelShape shape_of_weights(const StateDict& weights,
                            FunctionRef<std::unique_ptr<nn::Module>(const ModelShape&)> make);

/// The memory format of filters: channels-last on a GPU with --layout nhwc. On a CPU oneDNN packs
/// them from any format.
MemoryFormat filter_format(Device device, const Settings& settings);

/// Moves the model to the device, and its filters to filter_format().
void place_model(nn::Module& model, Device device, const Settings& settings);

/// The views of each image that --tta asks for, if any.
std::optional<nn::Views> views_of(const Settings& settings);

/// The model, or with --tta one that averages its scores over views of each image.
std::unique_ptr<nn::Module> with_views(std::unique_ptr<nn::Module> model, const Settings& settings);

/// The batch's images in the memory format of --layout.
Tensor in_layout(const Tensor& x, const Settings& settings);

/// The model's scores of a batch, in f32, computed as --layout and --amp say.
Tensor scores_of(nn::Module& model, const Tensor& x, const Settings& settings);

/// The loss of images and labels: cross entropy of the model's scores with --label-smoothing. The
/// scores are in f32, computed as --layout says.
train::LossFunction loss_of(nn::Module& model, const Settings& settings);

/// The options of a step that --amp, --loss-scale, --accumulate, --clip-grad-norm, --recompute and
/// --capture ask for.
/// throws: UsageError for a loss scale that is not possible.
train::StepOptions step_options(const Settings& settings);

}  // namespace lathe::cli
