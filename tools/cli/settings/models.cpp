// The list of models for --model.
#include "lathe/tools/cli/settings/models.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"

namespace lathe::cli {
namespace {

std::deque<Model>& list() {
  static std::deque<Model> all = [] {
    std::deque<Model> out;
    for (const nn::ModelKind& kind : nn::model_kinds()) {
      out.push_back({std::string(kind.name), kind.make, kind.smallest_image, kind.patch});
    }
    return out;
  }();
  return all;
}

const Model* find_model(std::string_view name) {
  const auto found = std::ranges::find(list(), name, &Model::name);
  return found == list().end() ? nullptr : &*found;
}

bool is_name_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '-' || c == '.';
}

}  // namespace

const std::deque<Model>& models() { return list(); }

std::unique_ptr<nn::Module> make_named_model(std::string_view name,
                                             const nn::ModelOptions& options) {
  const Model* model = find_model(name);
  if (!model) throw UsageError(formatted("--model: no model \"{}\"", name));
  if (options.image_size < model->smallest_image) {
    throw UsageError(formatted("--model {} needs images of {} x {} or larger, not --image-size {}",
                               name, model->smallest_image, model->smallest_image,
                               options.image_size));
  }
  if (options.image_size % model->patch != 0) {
    throw UsageError(formatted("--model {} needs an --image-size that is a multiple of {}, not {}",
                               name, model->patch, options.image_size));
  }
  return model->make(options);
}

bool is_model_name(std::string_view model) { return find_model(model) != nullptr; }

bool is_model_file(std::string_view model) {
  return !is_model_name(model) &&
         (is_program_file(model) || is_onnx_file(model) || is_lathe_file(model));
}

std::string title_of_model(std::string_view model) {
  return is_model_file(model) ? std::filesystem::path(model).stem().string() : std::string(model);
}

std::string model_names() {
  std::string names;
  for (const Model& model : list())
    names += formatted("{}{}", names.empty() ? "" : "|", model.name);
  return names;
}

}  // namespace lathe::cli

void lathe::trainer::add_model(Model model) {
  LATHE_CHECK(
      ValueError, !model.name.empty() && std::ranges::all_of(model.name, cli::is_name_letter),
      "add_model: a name is made of letters, digits, '_', '-' and '.', got \"", model.name, "\"");
  LATHE_CHECK(ValueError, cli::find_model(model.name) == nullptr, "add_model: there is a model \"",
              model.name, "\" already");
  LATHE_CHECK(ValueError, model.smallest_image > 0 && model.patch > 0, "add_model: \"", model.name,
              "\": smallest_image ", model.smallest_image, " and patch ", model.patch,
              " must be positive");
  LATHE_CHECK(ValueError, model.make != nullptr, "add_model: \"", model.name, "\" has no maker");
  cli::list().push_back(std::move(model));
}
