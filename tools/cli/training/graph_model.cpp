// Graphs of files, made ready for a training whose checkpoints hold all of them.
#include "lathe/tools/cli/training/graph_model.h"

#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/text/formatted.h"
#include "lathe/graph/file.h"
#include "lathe/graph/onnx/onnx.h"
#include "lathe/graph/passes.h"
#include "lathe/graph/replace_head.h"
#include "lathe/graph/work.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/models.h"

namespace lathe::cli {
namespace {

constexpr std::string_view kFirstWord = "lathe graph ";

/// Makes constants of several elements buffers, which checkpoints hold. The text of a graph has
/// only constants of one element.
void keep_constants(jit::Graph& graph) {
  for (size_t i = 0; i < graph.values.size(); ++i) {
    jit::Value& value = graph.values[i];
    if (value.origin != jit::Origin::kConstant || value.tensor.numel() == 1) continue;
    value.name = jit::fresh_name(graph, formatted("constants.{}", i));
    value.origin = jit::Origin::kBuffer;
  }
}

/// throws: CommandError (kData) for numbers of 8 bits, or floating ones other than f32.
void check_weights(const jit::Graph& graph, const std::string& file) {
  for (const jit::Value& value : graph.values) {
    const DType dtype = value.type.dtype;
    const bool is_index = !is_floating(dtype) && dtype != kI8;
    const bool is_number = value.origin == jit::Origin::kConstant;
    if (!value.tensor.defined() || dtype == kF32 || is_index || is_number) continue;
    throw CommandError(
        ExitCode::kData,
        formatted("--model {}: {} is {}, and a graph trains in f32 only; lathe predict takes any",
                  file, value.name, jit::to_text(value.type)));
  }
}

std::unique_ptr<jit::GraphModule> made_model(jit::Graph graph, std::optional<int64_t> classes,
                                             const std::string& file) {
  check_weights(graph, file);
  if (classes) {
    try {
      jit::replace_head(graph, *classes);
    } catch (const ValueError& e) {
      const std::string why = e.message().substr(std::string_view("replace_head: ").size());
      throw CommandError(ExitCode::kData,
                         formatted("--model {} cannot get a new last layer: {}", file, why));
    }
  }
  return std::make_unique<jit::GraphModule>(std::move(graph), file);
}

}  // namespace

std::unique_ptr<jit::GraphModule> open_graph_model(const std::string& file,
                                                   std::optional<int64_t> classes) {
  jit::Graph graph =
      is_onnx_file(file) ? jit::load_onnx_module(file).training_graph() : jit::load(file);
  jit::remove_dead_code(graph);
  keep_constants(graph);
  return made_model(std::move(graph), classes, file);
}

std::string graph_text(const jit::GraphModule& model) { return model.training_graph().text(); }

bool is_graph_text(std::string_view carried) { return carried.starts_with(kFirstWord); }

std::unique_ptr<jit::GraphModule> carried_graph_model(const std::string& text,
                                                      const StateDict& weights,
                                                      std::optional<int64_t> classes,
                                                      const std::string& file) {
  jit::Graph graph = jit::parse(text, file);
  StateDict copies;
  for (const auto& [name, tensor] : weights) copies.add(name, tensor.clone());
  try {
    graph.bind(copies);
  } catch (const Error& e) {  // missing, or of another type
    LATHE_FAIL(DataError, file, ": ", e.message());
  }
  jit::check_work(graph, file);
  return made_model(std::move(graph), classes, file);
}

}  // namespace lathe::cli
