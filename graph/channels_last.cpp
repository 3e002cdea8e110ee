// use_channels_last: NHWC from the inputs on.
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "lathe/graph/op_table.h"
#include "lathe/graph/passes.h"

namespace lathe::jit {

namespace {

bool is_convolution(const Node& node) {
  return node.op->name == "conv2d" || node.op->name == "fused_conv2d";
}

/// The inputs that a convolution reads.
std::vector<int> images_of(const Graph& graph) {
  std::vector<bool> read(graph.values.size());
  for (const Node& node : graph.nodes) {
    if (is_convolution(node) && node.inputs[0] >= 0) {
      read[static_cast<size_t>(node.inputs[0])] = true;
    }
  }
  std::vector<int> images;
  for (const int input : graph.inputs) {
    const bool is_batch = graph.values[static_cast<size_t>(input)].type.shape.size() == 4;
    if (read[static_cast<size_t>(input)] && is_batch) images.push_back(input);
  }
  return images;
}

}  // namespace

void use_channels_last(Graph& graph) {
  static const std::vector<std::string> attributes = {"format"};
  std::vector<Node> nodes;
  for (const int input : images_of(graph)) {
    const Value& image = graph.values[static_cast<size_t>(input)];
    const int ordered = graph.add(
        {fresh_name(graph, image.name + ".nhwc"), Origin::kNode, Type(image.type), Tensor()});
    for (Node& node : graph.nodes) {
      if (is_convolution(node) && node.inputs[0] == input) node.inputs[0] = ordered;
    }
    nodes.push_back(
        {find_op("contiguous", attributes), {input}, {std::string("channels_last")}, ordered, {}});
  }
  nodes.insert(nodes.end(), std::make_move_iterator(graph.nodes.begin()),
               std::make_move_iterator(graph.nodes.end()));
  graph.nodes = std::move(nodes);
}

}  // namespace lathe::jit
