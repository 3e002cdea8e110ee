// The models that --model can name: those of nn/models.h, and those that a program adds.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "lathe/nn/models.h"

namespace lathe::cli {

struct Model {
  std::string name;
  std::function<std::unique_ptr<nn::Module>(const nn::ModelOptions&)> make;
  int64_t smallest_image = 1;  // rows and columns; smaller images are refused
  int64_t patch = 1;           // rows and columns must be multiples of this
};

/// The models of the library first.
const std::deque<Model>& models();

/// Before the command line is read.
/// throws: ValueError for a name that is taken, empty, or not made of letters, digits, '_', '-' and
/// '.', and for one without a maker.
void add_model(Model model);

/// Makes it.   → the model, on the CPU
/// throws: UsageError for an image size that it does not take, or a name that there is not.
std::unique_ptr<nn::Module> make_named_model(std::string_view name,
                                             const nn::ModelOptions& options);

/// "resnet18|resnet34|…".
std::string model_names();

}  // namespace lathe::cli
