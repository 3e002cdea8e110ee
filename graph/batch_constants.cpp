// share_batch_constants(): contract in batch_constants.h.
#include "lathe/graph/batch_constants.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "lathe/graph/op_table.h"
#include "lathe/graph/passes.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/views.h"

namespace lathe::jit {

namespace {

/// fold_constants() without parameters and buffers, which others may change.
void fold_true_constants(Graph& graph) {
  std::vector<std::pair<size_t, Tensor>> others;
  for (size_t i = 0; i < graph.values.size(); ++i) {
    Value& value = graph.values[i];
    if (value.origin != Origin::kConstant) others.emplace_back(i, std::exchange(value.tensor, {}));
  }
  fold_constants(graph);
  for (auto& [i, tensor] : others) {
    if (tensor.defined()) graph.values[i].tensor = std::move(tensor);
  }
}

/// Whether a constant has this many rows, all the same.
bool repeats(const Value& value, int64_t rows) {
  const Tensor& t = value.tensor;
  return value.origin == Origin::kConstant && t.ndim() > 0 && t.dim(0) == rows &&
         equal(t, expand(narrow(t, 0, 0, 1), t.shape()));
}

/// Puts one row and an "expand" in the place of a constant.
void keep_one_row(Graph& graph, size_t constant) {
  Value whole = graph.values[constant];
  const Tensor row = narrow(whole.tensor, 0, 0, 1).clone();
  graph.values[constant].tensor = row;
  graph.values[constant].type = type_of(row);
  whole.origin = Origin::kNode;
  whole.tensor = {};
  whole.name = fresh_name(graph, "rows");
  Node node{.op = find_op("expand", std::vector<std::string>{"shape"})};
  node.attributes = {whole.type.shape};
  const int rows = graph.add(std::move(whole));
  const auto replace = [&](int& value) {
    if (value == static_cast<int>(constant)) value = rows;
  };
  for (Node& reader : graph.nodes) std::ranges::for_each(reader.inputs, replace);
  std::ranges::for_each(graph.outputs, replace);
  node.inputs = {static_cast<int>(constant)};
  node.output = rows;
  graph.nodes.insert(graph.nodes.begin(), std::move(node));
}

}  // namespace

void share_batch_constants(Graph& a, int64_t first, Graph& b, int64_t second) {
  for (Graph* const graph : {&a, &b}) {
    remove_dead_code(*graph);
    fold_true_constants(*graph);
    remove_dead_code(*graph);
  }
  const size_t count = a.values.size();
  if (b.values.size() != count) return;
  for (size_t i = 0; i < count; ++i) {
    if (!repeats(a.values[i], first) || !repeats(b.values[i], second)) continue;
    keep_one_row(a, i);
    keep_one_row(b, i);
  }
}

}  // namespace lathe::jit
