// The models that --model can name: those of nn/models.h, those that a program adds, and files.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "lathe/trainer.h"

namespace lathe::cli {

using trainer::Model;

/// The models of the library first. trainer::add_model() adds to them before the command line is
/// read.
const std::deque<Model>& models();

/// Makes it.   → the model, on the CPU
/// throws: UsageError for an image size that it does not take, or a name that there is not.
std::unique_ptr<nn::Module> make_named_model(std::string_view name,
                                             const nn::ModelOptions& options);

bool is_model_name(std::string_view model);

/// Whether --model means a file (training/model_file.h): it is no name, and ends with .pt2, .onnx
/// or .lathe.
bool is_model_file(std::string_view model);

/// What to call the model: a name as it is, a file without folder and ending.
std::string title_of_model(std::string_view model);

/// "resnet18|resnet34|…".
std::string model_names();

}  // namespace lathe::cli
