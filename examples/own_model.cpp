// A model of one's own in the trainer: add_model() and run() in main() give it every flag of
// `lathe train`, checkpoints, resuming, eval, find-lr and the other commands.
//   own_model train --model patch_mixer --dataset fashion-mnist --run-dir runs/mixer
//   own_model train --resume runs/mixer
//   own_model find-lr --model patch_mixer --dataset cifar10
#include <lathe/lathe.h>
#include <lathe/trainer.h>

namespace nn = lathe::nn;
using lathe::Tensor;

/// Patches of 4x4 pixels, then layers that mix a patch's neighbours (depthwise) and its channels: as
/// ConvMixer, but with relu, without residual connections, and with no norm behind the patches.
/// ref: Trockman and Kolter 2022 (arXiv:2201.09792).
struct PatchMixer final : nn::Module {
  nn::Sequential net{*this, "net"};

  PatchMixer(int64_t channels, int64_t classes, int64_t width = 64, int depth = 4) {
    net.add<nn::Conv2d>(channels, width, nn::Conv2dOptions{.kernel = 4, .stride = 4});
    for (int i = 0; i < depth; ++i) {
      net.add<nn::Conv2dNormActivation>(
          width, width, nn::Conv2dNormActivationOptions{.kernel = 5, .groups = width});
      net.add<nn::Conv2dNormActivation>(width, width, nn::Conv2dNormActivationOptions{.kernel = 1});
    }
    net.add<nn::AdaptiveAvgPool2d>(1);
    net.add<nn::Flatten>();
    net.add<nn::Linear>(width, classes);
  }

  Tensor forward(const Tensor& x) override { return net(x); }
};

int main(int argc, char** argv) {
  const auto make = [](const nn::ModelOptions& options) {
    return std::make_unique<PatchMixer>(options.in_channels, options.classes);
  };
  lathe::trainer::add_model({"patch_mixer", make, /*smallest_image=*/4});
  return lathe::trainer::run(argc, argv);
}
