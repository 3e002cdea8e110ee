// What every command that computes sets up first: threads, device, kind of convolution, and the
// model.
#pragma once

#include <memory>
#include <string>

#include "lathe/core/device.h"
#include "lathe/core/tensor.h"
#include "lathe/nn/module.h"
#include "lathe/ops/conv/conv2d_passes.h"
#include "lathe/tools/cli/settings/settings.h"

namespace lathe::cli {

/// Applies --threads, --device and what says how convolutions are computed; on a GPU the settings
/// that were left open become definite (complete_for_gpu).   → the device
/// throws: UsageError for a name that is no device, NoCudaError or DeviceError for one that is not
/// there.
Device prepare_compute(Settings& settings);

/// With --device auto, why the CPU was chosen, as one line; "" otherwise.
std::string device_remark(const Settings& settings);

/// What convolutions on the CPU run on: "oneDNN 2.6.3: direct, Winograd, bf16".
std::string convolution_text(const cpu::FastConv2dInfo& fast);

/// What a build without oneDNN costs a training on this device, as one line; "" where it does not
/// matter.
std::string convolution_remark(const cpu::FastConv2dInfo& fast, Device device);

struct ModelShape {
  int64_t classes = 10, in_channels = 3;
};

/// The model that --model and --stem name, on the CPU; its values are drawn from the default
/// generator.
std::unique_ptr<nn::Module> make_model(const Settings& settings, const ModelShape& shape);

/// The order in which filters lie: channels-last on a GPU with --layout nhwc. (On a CPU oneDNN
/// packs them, from any order.)
MemoryFormat filter_format(Device device, const Settings& settings);

/// Moves the model to the device, its filters in that order.
void place_model(nn::Module& model, Device device, const Settings& settings);

/// Loads a weights file or a checkpoint into the model; all or nothing.
/// throws: CommandError (kData) if it cannot be read, DataError if it is not what it should be or
/// does not fit.
void load_weights(nn::Module& model, const std::string& path);

/// The batch's images in the order that --layout names.
Tensor in_layout(const Tensor& x, const Settings& settings);

/// The model's scores of a batch in f32, computed as --layout and --amp say.
Tensor scores_of(nn::Module& model, const Tensor& x, const Settings& settings);

}  // namespace lathe::cli
