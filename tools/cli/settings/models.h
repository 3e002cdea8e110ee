// The models that --model can name: those of nn/models.h, those that a program adds, and files.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <string_view>

#include "lathe/trainer.h"

namespace lathe::cli {

using trainer::Model;

/// All models that --model can name, the library's first. trainer::add_model() adds models before
/// the command line is read.
const std::deque<Model>& models();

/// Makes the model `name`.   → the model, on the CPU
/// throws: UsageError for an image size that the model does not take, or an unknown name.
std::unique_ptr<nn::Module> make_named_model(std::string_view name,
                                             const nn::ModelOptions& options);

bool is_model_name(std::string_view model);

/// What a file holds, by its ending: a program of torch.export.save, an ONNX model, or a Lathe
/// graph (jit::save()).
inline bool is_program_file(std::string_view file) { return file.ends_with(".pt2"); }
inline bool is_onnx_file(std::string_view file) { return file.ends_with(".onnx"); }
inline bool is_lathe_file(std::string_view file) { return file.ends_with(".lathe"); }

/// True if --model means a file (training/model_file.h): it is not the name of a model, and has one
/// of these endings.
bool is_model_file(std::string_view model);

/// The model's name for people: a name as it is, a file without its folder and ending.
std::string title_of_model(std::string_view model);

/// The names of all models(), as one text: "resnet18|resnet34|…".
std::string model_names();

}  // namespace lathe::cli
