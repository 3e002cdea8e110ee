// The models that --model can name: those of nn/models.h, and those that a program adds.
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

/// "resnet18|resnet34|…".
std::string model_names();

}  // namespace lathe::cli
