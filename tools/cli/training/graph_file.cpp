// Graphs in files, and what is known of their images.
#include "lathe/tools/cli/training/graph_file.h"

#include <algorithm>
#include <initializer_list>
#include <map>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lathe/core/formats/safetensors_header.h"
#include "lathe/core/formats/tensor_file.h"
#include "lathe/core/text/formatted.h"
#include "lathe/graph/file.h"
#include "lathe/graph/onnx/onnx.h"
#include "lathe/graph/op_table.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/models.h"
#include "lathe/tools/cli/training/reading_data.h"

namespace lathe::cli {
namespace {

// The node that makes a value; null for inputs and tensors of the graph.
const jit::Node* node_of(const jit::Graph& graph, int value) {
  const auto found = std::ranges::find(graph.nodes, value, &jit::Node::output);
  return found == graph.nodes.end() ? nullptr : &*found;
}

// The node that makes the numbers of a value, before ops that change only shape or dtype.
const jit::Node* source_of(const jit::Graph& graph, int value) {
  constexpr std::string_view kSameNumbers[] = {"cast",      "clone",    "contiguous", "dequantize",
                                               "flatten",   "quantize", "reshape",    "squeeze",
                                               "unsqueeze", "view"};
  const jit::Node* node = node_of(graph, value);
  while (node != nullptr &&
         std::ranges::find(kSameNumbers, node->op->name) != std::end(kSameNumbers))
    node = node_of(graph, node->inputs[0]);
  return node;
}

// Whether a softmax or log_softmax is over the classes, and not over the images of a batch.
bool is_over(const jit::Graph& graph, const jit::Node& node, const jit::Size& classes) {
  const std::vector<jit::Size>& shape = graph.values[static_cast<size_t>(node.output)].type.shape;
  const auto* const dim = std::get_if<jit::Size>(&node.attributes.at(0));
  if (dim == nullptr) return false;
  const int64_t d = dim->fixed < 0 ? dim->fixed + std::ssize(shape) : dim->fixed;
  return d > 0 && d < std::ssize(shape) && shape[static_cast<size_t>(d)] == classes;
}

}  // namespace

safetensors::Metadata metadata_in(const std::string& path) {
  const bool is_other = is_onnx_file(path) || is_program_file(path);
  if (is_other || tensor_file_format(path) != TensorFileFormat::kSafetensors) return {};
  return safetensors::read_metadata(path);
}

bool is_graph_file(const std::string& path) {
  return is_onnx_file(path) || metadata_in(path).contains(jit::kGraphKey);
}

GraphFile read_graph_file(const std::string& path) {
  return reading_data([&] {
    GraphFile file;
    if (is_onnx_file(path)) {
      jit::OnnxModel model = jit::load_onnx(path);
      file = {std::move(model.graph), std::move(model.metadata)};
    } else {
      file = {jit::load(path), safetensors::read_metadata(path)};
    }
    std::erase_if(file.about, [](const auto& entry) {  // of the file itself
      return entry.first == jit::kGraphKey || entry.first == safetensors::kChecksumKey;
    });
    return file;
  });
}

StateDict weights_of(const jit::Graph& graph) {
  constexpr std::string_view kMean = "running_mean";
  StateDict weights, counts;
  for (const jit::Value& value : graph.values) {
    const bool is_weight =
        value.origin == jit::Origin::kParameter || value.origin == jit::Origin::kBuffer;
    if (!is_weight || !value.tensor.defined() || value.name.starts_with("const/")) continue;
    weights.add(value.name, value.tensor);
    if (value.name.ends_with(kMean)) {
      const std::string layer = value.name.substr(0, value.name.size() - kMean.size());
      counts.add_number(layer + "num_batches_tracked", int64_t{0});
    }
  }
  for (const auto& [name, count] : counts) {
    if (!weights.contains(name)) weights.add(name, count);
  }
  return weights;
}

ModelInput model_input_of(const GraphFile& file, const std::string& path) {
  if (!input_entries(file.about).empty()) return model_input_in(file.about, path);
  const jit::Graph& graph = file.graph;
  const auto shape = [&](const std::vector<int>& of) {
    return of.size() == 1 ? graph.values[static_cast<size_t>(of[0])].type.shape
                          : std::vector<jit::Size>();
  };
  const std::vector<jit::Size> x = shape(graph.inputs), y = shape(graph.outputs);
  const auto fixed = [](const jit::Size& size) { return size.of_batch == 0 && size.fixed > 0; };
  const bool is_classifier = x.size() == 4 && x[1] == jit::Size{0, 3} && x[2] == x[3] &&
                             fixed(x[2]) && y.size() == 2 && y[0] == x[0] && x[0] != jit::Size{} &&
                             fixed(y[1]);
  if (!is_classifier) {
    throw CommandError(
        ExitCode::kData,
        formatted("{}: this file does not say how images are prepared for its model. lathe can "
                  "assume torchvision's way only for a model from [N,3,S,S] to [N,classes]",
                  path));
  }
  // The numbers are only types in the file. The middle is taken of an image of more pixels.
  constexpr int64_t kMostClasses = 1'000'000, kMostInput = kMostSide * 224 / 256;
  if (x[2].fixed > kMostInput) {
    throw CommandError(ExitCode::kData,
                       formatted("{}: its images have {} pixels a side, which is more than {}",
                                 path, x[2].fixed, kMostInput));
  }
  if (y[1].fixed > kMostClasses) {
    throw CommandError(ExitCode::kData, formatted("{}: {} classes are more than {}", path,
                                                  y[1].fixed, kMostClasses));
  }
  return usual_input(y[1].fixed, x[2].fixed);
}

bool gives_probabilities(const jit::Graph& graph) {
  if (graph.outputs.size() != 1) return false;
  const std::vector<jit::Size>& y = graph.values[static_cast<size_t>(graph.outputs[0])].type.shape;
  const jit::Node* node = source_of(graph, graph.outputs[0]);
  if (node == nullptr || y.size() != 2) return false;
  if (node->op->name == "sigmoid") return true;
  std::string_view normalised = "softmax";
  if (node->op->name == "exp") {
    node = source_of(graph, node->inputs[0]);
    normalised = "log_softmax";
  }
  return node != nullptr && node->op->name == normalised && is_over(graph, *node, y[1]);
}

int64_t batch_of(const jit::Graph& graph) {
  if (graph.inputs.empty()) return 0;
  const jit::Type& x = graph.values[static_cast<size_t>(graph.inputs[0])].type;
  return x.shape.empty() ? 0 : x.shape[0].fixed;
}

}  // namespace lathe::cli
