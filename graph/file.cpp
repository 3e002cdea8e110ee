// Graph files: between a graph and the contents of a safetensors file.
#include "lathe/graph/file.h"

#include <algorithm>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/graph/op_table.h"
#include "lathe/graph/work.h"

namespace lathe::jit {

namespace {

/// A node that does more than make its result, or null.
const Node* with_effects(const Graph& graph) {
  const auto has_effects = [](const Node& node) { return node.op->has_effects(); };
  const auto found = std::find_if(graph.nodes.begin(), graph.nodes.end(), has_effects);
  return found == graph.nodes.end() ? nullptr : &*found;
}

Graph graph_of(const safetensors::Contents& contents, std::string_view name) {
  const auto text = contents.metadata.find(kGraphKey);
  LATHE_CHECK(DataError, text != contents.metadata.end(), name,
              ": there is no graph in this file: its metadata lack ", kGraphKey);
  Graph graph = parse(text->second, name);
  if (const Node* const node = with_effects(graph)) {
    LATHE_FAIL(DataError, name, ": ", node->op->name, " writes into tensors or draws random ",
               "numbers, which the graph of a file may not");
  }
  try {
    graph.bind(contents.tensors);
  } catch (const Error& e) {  // missing, or of another type
    LATHE_FAIL(DataError, name, ": ", e.message());
  }
  check_work(graph, name);
  return graph;
}

}  // namespace

void save(const Graph& graph, const std::string& path, const safetensors::Metadata& metadata) {
  const Node* const node = with_effects(graph);
  LATHE_CHECK(ValueError, node == nullptr, "save: ", node->op->name, " writes into tensors or ",
              "draws random numbers; a file holds a graph that only computes");
  const std::string text = graph.text();
  // What the text does not hold; tensors that no node reads stay behind.
  const Graph plain = parse(text, path);
  const StateDict all = graph.state();
  StateDict tensors;
  for (const Value& value : plain.values) {
    const bool is_entry = value.origin != Origin::kInput && value.origin != Origin::kNode;
    if (!is_entry || value.tensor.defined()) continue;
    LATHE_CHECK(StateError, all.contains(value.name), "save: @", value.name,
                " has no tensor; call bind()");
    tensors.add(value.name, all.at(value.name));
  }
  safetensors::Metadata entries = metadata;
  const bool is_new = entries.emplace(kGraphKey, text).second;
  LATHE_CHECK(ValueError, is_new, "save: the metadata's key \"", kGraphKey,
              "\" stands for the graph");
  safetensors::write(path, tensors, entries);
}

Graph load(const std::string& path) { return graph_of(safetensors::read(path), path); }

Graph load(std::span<const std::byte> bytes, std::string_view name) {
  return graph_of(safetensors::parse(bytes, name), name);
}

}  // namespace lathe::jit
