// Graph files: between a graph and the contents of a safetensors file.
#include "lathe/graph/file.h"

#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/graph/work.h"

namespace lathe::jit {

namespace {

Graph graph_of(const safetensors::Contents& contents, std::string_view name) {
  const auto text = contents.metadata.find(kGraphKey);
  LATHE_CHECK(DataError, text != contents.metadata.end(), name, ": there is no graph in this file");
  Graph graph = parse(text->second, name);
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
