// merge_common_subexpressions: one walk; what was seen is found by its text. Contract:
// graph/passes.h.
#include <algorithm>
#include <numeric>
#include <string>
#include <unordered_map>
#include <utility>

#include "lathe/core/format.h"
#include "lathe/core/formats/tensor_bytes.h"
#include "lathe/graph/op_table.h"
#include "lathe/graph/passes.h"
#include "lathe/graph/work.h"

namespace lathe::jit {

namespace {

constexpr int64_t kMostBytes = 64;  // of a constant that is compared with others

std::string key_of(const Node& node) {
  std::string key = node.op->name;
  for (const int input : node.inputs) key += concat(" ", input);
  for (size_t i = 0; i < node.attributes.size(); ++i) {
    key += concat(" ", node.op->attributes[i].name, "=", to_text(node.attributes[i]));
  }
  return key;
}

}  // namespace

void merge_common_subexpressions(Graph& graph) {
  std::vector<int> same_as(graph.values.size());  // the first value that is the same
  std::iota(same_as.begin(), same_as.end(), 0);
  std::unordered_map<std::string, int> seen;

  for (size_t i = 0; i < graph.values.size(); ++i) {
    const Value& value = graph.values[i];
    if (value.origin != Origin::kConstant || !value.tensor.defined()) continue;
    if (value.tensor.bytes() > kMostBytes) continue;
    const std::string place = concat(" on ", value.tensor.device(), ": ");
    const std::string key =
        to_text(value.type) + place + std::string(bytes_of(dense_on_cpu(value.tensor)));
    same_as[i] = seen.emplace(key, static_cast<int>(i)).first->second;
  }

  const auto follow = [&](int& number) {
    if (number >= 0) number = same_as[static_cast<size_t>(number)];
  };
  const std::vector<bool> written = written_values(graph);
  std::vector<Node> kept;
  for (Node& node : graph.nodes) {
    std::for_each(node.inputs.begin(), node.inputs.end(), follow);
    if (node.op->has_effects() || reads_any(node, written)) {
      kept.push_back(std::move(node));
      continue;
    }
    const auto [at, is_new] = seen.emplace("node " + key_of(node), node.output);
    if (is_new) {
      kept.push_back(std::move(node));
    } else {
      same_as[static_cast<size_t>(node.output)] = at->second;
    }
  }
  graph.nodes = std::move(kept);
  std::for_each(graph.outputs.begin(), graph.outputs.end(), follow);
}

}  // namespace lathe::jit
