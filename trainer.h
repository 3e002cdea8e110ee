// The `lathe` command as a part of a program, which can add models of its own to those of --model.
// A complete one:
//   #include <lathe/lathe.h>
//   #include <lathe/trainer.h>
//   int main(int argc, char** argv) {
//     lathe::trainer::add_model({"my_net", [](const lathe::nn::ModelOptions& options) {
//       return std::make_unique<MyNet>(options.in_channels, options.classes);
//     }});
//     return lathe::trainer::run(argc, argv);
//   }
// In CMake it links lathe::trainer. The program then has every command and flag of `lathe`:
//   my_program train --model my_net --dataset cifar10 --epochs 30 --run-dir runs/a
//   my_program train --resume runs/a
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "lathe/nn/models.h"

namespace lathe::trainer {

struct Model {
  std::string name;  // for --model
  /// Gets --image-size, --stem, and the numbers of classes and channels of the data set. To learn
  /// the shapes of the parameters, `lathe` also calls it with other numbers. The model turns images
  /// [N,in_channels,image_size,image_size] into scores [N,classes]. It draws its initial values
  /// from the default generator, which --seed has seeded.
  std::function<std::unique_ptr<nn::Module>(const nn::ModelOptions& options)> make;
  int64_t smallest_image = 1;  // rows and columns; a smaller --image-size is refused
  int64_t patch = 1;           // --image-size must be a multiple of this; positive
};

/// Adds a model to those that --model can name. Call it before run().
/// throws: ValueError for a name that is taken, empty, or not made of letters, digits, '_', '-' and
/// '.', for a model without `make`, and for a patch or smallest_image that is not positive.
void add_model(Model model);

/// Runs `lathe` with these arguments. argv[0] is the program's name. Call it once.
/// → the exit code; errors are reported on stderr and not thrown
int run(int argc, char** argv);

}  // namespace lathe::trainer
