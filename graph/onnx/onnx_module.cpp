// load_onnx_module(): which tensors of an ONNX file are weights. Contract: onnx.h.
#include <algorithm>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/files/file.h"
#include "lathe/core/format.h"
#include "lathe/core/log.h"
#include "lathe/graph/onnx/onnx.h"
#include "lathe/graph/onnx/onnx_import.h"
#include "lathe/graph/op_table.h"

namespace lathe::jit {

namespace {

/// Whether a tensor of a file that a node reads as this input is a weight. `is_weight`: whether one
/// in the place of the node's result would be.
bool reads_weight(const Graph& graph, const Node& node, size_t input, bool is_weight) {
  if (calls_one_of(node, {"conv1d", "conv2d", "conv_transpose2d", "linear", "layer_norm",
                          "group_norm", "prelu"})) {
    return input > 0;
  }
  if (node.op->name == "batch_norm") return input == 1 || input == 2;
  if (calls_one_of(node, {"matmul", "bmm"})) return true;
  if (calls_one_of(node, {"embedding", "index_select"})) return input == 0;
  const Tensor& t = graph.values[static_cast<size_t>(node.inputs[input])].tensor;
  if (t.defined() && t.numel() == 1) return false;  // rather a scale, an epsilon or a filling
  if (calls_one_of(node, {"add", "mul"})) return true;
  const bool is_view = calls_one_of(
      node, {"reshape", "view", "permute", "transpose", "expand", "unsqueeze", "squeeze", "slice",
             "narrow", "select", "cat", "cast", "contiguous", "clone", "flip", "pad"});
  return is_view && is_weight;
}

/// Makes the tensors that are no weights buffers.
void keep_weights(Graph& graph) {
  std::vector<bool> is_weight(graph.values.size());
  for (auto node = graph.nodes.rbegin(); node != graph.nodes.rend(); ++node) {
    const bool result = is_weight[static_cast<size_t>(node->output)];
    for (size_t i = 0; i < node->inputs.size(); ++i) {
      const int value = node->inputs[i];
      if (value >= 0 && reads_weight(graph, *node, i, result)) {
        is_weight[static_cast<size_t>(value)] = true;
      }
    }
  }
  for (size_t i = 0; i < graph.values.size(); ++i) {
    Value& value = graph.values[i];
    if (value.origin == Origin::kParameter && !is_weight[i]) value.origin = Origin::kBuffer;
  }
}

/// Convolutions with a bias, and neither batch norm nor dropout: what folding leaves.
bool looks_folded(const Graph& graph) {
  const auto has = [&](auto is_it) { return std::ranges::any_of(graph.nodes, is_it); };
  return has([](const Node& node) {
           return node.op->name == "conv2d" && node.inputs.size() > 2 && node.inputs[2] >= 0;
         }) &&
         !has([](const Node& node) {
           return calls_one_of(node, {"batch_norm", "dropout"});
         });
}

Graph graph_for_training(std::string_view bytes, std::string_view name) {
  Graph graph = onnx::read(bytes, name, /*for_training=*/true).graph;
  keep_weights(graph);
  return graph;
}

}  // namespace

Graph load_onnx_training_graph(const std::string& path) {
  return graph_for_training(onnx::read_bytes(path), path);
}

std::string folded_remark(const Graph& graph) {
  if (!looks_folded(graph)) return "";
  return "has neither batch norm nor dropout. If its model had, the export has folded them: "
         "torch.onnx.export(model.train(), …, dynamo=False, "
         "training=torch.onnx.TrainingMode.TRAINING, do_constant_folding=False) keeps them";
}

GraphModule load_onnx_module(std::string_view bytes, std::string_view name) {
  Graph graph = graph_for_training(bytes, name);
  const std::string remark = folded_remark(graph);
  if (!remark.empty()) warn_once(concat("folded: ", name), concat(name, " ", remark));
  return GraphModule(std::move(graph), name);
}

GraphModule load_onnx_module(const std::string& path) {
  return load_onnx_module(onnx::read_bytes(path), path);
}

}  // namespace lathe::jit
