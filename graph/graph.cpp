// Graph: values, their tensors, and what is asked of the whole.
#include "lathe/graph/graph.h"

#include <algorithm>
#include <ostream>
#include <utility>

#include "lathe/core/format.h"
#include "lathe/graph/op_table.h"

namespace lathe::jit {

namespace {

bool has_tensor(const Value& value) {
  return value.origin != Origin::kInput && value.origin != Origin::kNode;
}

Shape fixed_shape(const Type& type) {
  Shape shape;
  for (const Size& size : type.shape) shape.push_back(size.fixed);
  return shape;
}

}  // namespace

bool calls_one_of(const Node& node, std::initializer_list<std::string_view> ops) {
  return std::ranges::find(ops, node.op->name) != ops.end();
}

const Attribute* find_attribute(const Node& node, std::string_view name) {
  const auto& attributes = node.op->attributes;
  const auto found = std::ranges::find(attributes, name, &AttributeName::name);
  const auto at = static_cast<size_t>(found - attributes.begin());
  return at < std::min(attributes.size(), node.attributes.size()) ? &node.attributes[at] : nullptr;
}

int Graph::add(Value value) {
  values.push_back(std::move(value));
  return static_cast<int>(values.size()) - 1;
}

Tensor Graph::operator()(const Tensor& x) const {
  LATHE_CHECK(StateError, inputs.size() == 1 && outputs.size() == 1, "graph: it has ",
              inputs.size(), " inputs and ", outputs.size(), " outputs; call run()");
  return run({x})[0];
}

StateDict Graph::state() const {
  StateDict state;
  for (const Value& value : values) {
    if (has_tensor(value) && value.tensor.defined()) state.add(value.name, value.tensor);
  }
  return state;
}

void Graph::bind(const StateDict& state) {
  const auto wanted = [](const Value& value) {
    return has_tensor(value) && !(value.origin == Origin::kConstant && value.tensor.defined());
  };
  std::string missing;
  for (const Value& value : values) {
    if (!wanted(value)) continue;
    const Tensor* const t = state.find(value.name);
    if (t == nullptr) {
      missing += concat(missing.empty() ? "" : ", ", value.name);
      continue;
    }
    LATHE_CHECK(DTypeError, t->dtype() == value.type.dtype, "graph: @", value.name, " must be ",
                to_text(value.type), " (got: ", *t, ")");
    LATHE_CHECK(ShapeError, t->shape() == fixed_shape(value.type), "graph: @", value.name,
                " must be ", to_text(value.type), " (got: ", *t, ")");
  }
  LATHE_CHECK(ValueError, missing.empty(), "graph: no tensor for ", missing);
  for (Value& value : values) {
    if (wanted(value)) value.tensor = state.at(value.name);
  }
}

void Graph::to(Device device) {
  Tensors moved;
  for (const Value& value : values) {
    moved.push_back(value.tensor.defined() ? value.tensor.to(device) : Tensor());
  }
  for (size_t i = 0; i < values.size(); ++i) values[i].tensor = moved[i];
}

void Graph::print(std::ostream& out) const { out << text(); }

std::vector<int> count_uses(const Graph& graph) {
  std::vector<int> uses(graph.values.size());
  for (const Node& node : graph.nodes) {
    for (const int input : node.inputs) {
      if (input >= 0) ++uses[static_cast<size_t>(input)];
    }
  }
  for (const int output : graph.outputs) ++uses[static_cast<size_t>(output)];
  return uses;
}

Type type_of(const Tensor& t) {
  Type type{t.dtype(), {}};
  for (const int64_t size : t.shape()) type.shape.push_back({0, size});
  return type;
}

std::string fresh_name(const Graph& graph, std::string wanted) {
  const auto has_it = [&](const Value& value) { return value.name == wanted; };
  while (std::any_of(graph.values.begin(), graph.values.end(), has_it)) wanted += "_";
  return wanted;
}

}  // namespace lathe::jit
