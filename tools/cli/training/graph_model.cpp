// Graphs of files, made ready for a training whose checkpoints hold all of them.
#include "lathe/tools/cli/training/graph_model.h"

#include <cmath>
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

/// Whether Graph::text() has a constant's value.
bool is_in_text(const Tensor& constant) {
  if (constant.numel() != 1) return false;
  return !is_floating(constant.dtype()) || !std::isnan(constant.item<double>());
}

/// Makes the constants whose values the text of a graph does not have buffers, which checkpoints
/// hold. They are counted, so that their names do not depend on other values.
void keep_constants(jit::Graph& graph) {
  int count = 0;
  for (jit::Value& value : graph.values) {
    if (value.origin != jit::Origin::kConstant || is_in_text(value.tensor)) continue;
    value.name = jit::fresh_name(graph, formatted("constants.{}", count++));
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
    throw CommandError(ExitCode::kData,
                       formatted("{}: {} is {}, but a graph that is trained or evaluated must be "
                                 "f32; lathe predict takes any",
                                 file, value.name, jit::to_text(value.type)));
  }
}

/// Whether the nodes that read each value do nothing but add or multiply it, directly or as views.
std::vector<bool> only_added(const jit::Graph& graph) {
  std::vector<bool> out(graph.values.size(), true);
  for (const int number : graph.outputs) out[static_cast<size_t>(number)] = false;
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool is_view = jit::calls_one_of(*node, {"cast", "expand", "permute", "reshape",
                                                   "squeeze", "transpose", "unsqueeze", "view"});
    if (is_view ? out[static_cast<size_t>(node->output)] : jit::calls_one_of(*node, {"add", "mul"}))
      continue;
    for (const int input : node->inputs) {
      if (input >= 0) out[static_cast<size_t>(input)] = false;
    }
  }
  return out;
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
                         formatted("{} cannot get a new last layer: {}", file, why));
    }
  }
  return std::make_unique<jit::GraphModule>(std::move(graph), file);
}

}  // namespace

std::unique_ptr<jit::GraphModule> open_graph_model(const std::string& file,
                                                   std::optional<int64_t> classes) {
  jit::Graph graph = is_onnx_file(file) ? jit::load_onnx_training_graph(file) : jit::load(file);
  jit::remove_dead_code(graph);
  keep_constants(graph);
  return made_model(std::move(graph), classes, file);
}

std::vector<std::string> doubtful_weights(const jit::GraphModule& model) {
  const jit::Graph& graph = model.training_graph();
  const std::vector<bool> is_added = only_added(graph);
  std::vector<std::string> out;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    const jit::Value& value = graph.values[i];
    const bool has_usual_name = value.name.ends_with(".weight") || value.name.ends_with(".bias");
    if (value.origin == jit::Origin::kParameter && value.tensor.requires_grad() && is_added[i] &&
        !has_usual_name)
      out.push_back(formatted("{} {}", value.name, jit::to_text(value.type)));
  }
  return out;
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
