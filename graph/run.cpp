// Graph::run: each node calls its op; a value is given up after its last use.
#include <optional>
#include <utility>

#include "lathe/core/format.h"
#include "lathe/graph/graph.h"
#include "lathe/graph/op_table.h"

namespace lathe::jit {

namespace {

/// The size of the batch of one run, learned from the inputs.
class Batch {
 public:
  /// throws: ShapeError if `t` is not of this shape for any batch, or for another one than an
  /// earlier input; DTypeError.
  void learn(const Value& input, const Tensor& t) {
    LATHE_CHECK(StateError, t.defined(), "graph: input %", input.name, " is undefined");
    LATHE_CHECK(DTypeError, t.dtype() == input.type.dtype, "graph: input %", input.name,
                " must be ", to_text(input.type), " (got: ", t, ")");
    bool fits = t.ndim() == static_cast<int>(input.type.shape.size());
    for (int d = 0; fits && d < t.ndim(); ++d) {
      const Size& size = input.type.shape[static_cast<size_t>(d)];
      const int64_t got = t.shape()[d];
      if (size.of_batch > 0 && !batch_) {
        fits = got % size.of_batch == 0;
        batch_ = got / size.of_batch;
      } else {
        fits = got == value_of(size);
      }
    }
    LATHE_CHECK(ShapeError, fits, "graph: input %", input.name, " must be ", to_text(input.type),
                batch_ ? concat(" with N = ", *batch_) : "", " (got: ", t, ")");
  }

  int64_t value_of(const Size& size) const {
    int64_t value = 0;
    LATHE_CHECK(ShapeError, !__builtin_mul_overflow(size.of_batch, batch_.value_or(0), &value),
                "graph: ", size.of_batch, " times a batch of ", batch_.value_or(0),
                " is too large");
    return value + size.fixed;
  }

  bool fits(const Type& type, const Tensor& t) const {
    if (t.dtype() != type.dtype || t.ndim() != static_cast<int>(type.shape.size())) return false;
    for (int d = 0; d < t.ndim(); ++d) {
      if (t.shape()[d] != value_of(type.shape[static_cast<size_t>(d)])) return false;
    }
    return true;
  }

  /// The attributes of a node with sizes that do not depend on the batch.
  std::vector<Attribute> fix(const std::vector<Attribute>& attributes) const {
    std::vector<Attribute> fixed = attributes;
    for (Attribute& attribute : fixed) {
      if (auto* const size = std::get_if<Size>(&attribute)) *size = {0, value_of(*size)};
      if (auto* const list = std::get_if<std::vector<Size>>(&attribute)) {
        for (Size& size : *list) size = {0, value_of(size)};
      }
    }
    return fixed;
  }

 private:
  std::optional<int64_t> batch_;
};

std::string called(const Node& node) {
  return node.place.empty() ? node.op->name : concat(node.op->name, " of ", node.place);
}

/// After which node each value is no longer needed: its number, or -1 for the outputs.
std::vector<int> last_uses(const Graph& graph) {
  std::vector<int> last(graph.values.size(), -1);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    for (const int input : graph.nodes[n].inputs) {
      if (input >= 0) last[static_cast<size_t>(input)] = static_cast<int>(n);
    }
    last[static_cast<size_t>(graph.nodes[n].output)] = static_cast<int>(n);  // if nobody reads it
  }
  for (const int output : graph.outputs) last[static_cast<size_t>(output)] = -1;
  return last;
}

}  // namespace

Tensors Graph::run(const Tensors& given) const {
  LATHE_CHECK(StateError, given.size() == inputs.size(), "graph: it has ", inputs.size(),
              " inputs, got ", given.size());
  Batch batch;
  Tensors live(values.size());
  for (size_t i = 0; i < values.size(); ++i) live[i] = values[i].tensor;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto at = static_cast<size_t>(inputs[i]);
    batch.learn(values[at], given[i]);
    live[at] = given[i];
  }

  const std::vector<int> last = last_uses(*this);
  for (size_t n = 0; n < nodes.size(); ++n) {
    const Node& node = nodes[n];
    Tensors in;
    in.reserve(node.inputs.size());
    for (const int input : node.inputs) {
      const Tensor t = input < 0 ? Tensor() : live[static_cast<size_t>(input)];
      LATHE_CHECK(StateError, input < 0 || t.defined(), "graph: @",
                  values[static_cast<size_t>(input)].name, " has no tensor yet; call bind()");
      in.push_back(t);
    }
    for (const int input : node.inputs) {
      if (input >= 0 && last[static_cast<size_t>(input)] == static_cast<int>(n)) {
        live[static_cast<size_t>(input)] = {};
      }
    }
    Tensor y = node.op->call(in, batch.fix(node.attributes));
    const Value& value = values[static_cast<size_t>(node.output)];
    LATHE_CHECK(ShapeError, batch.fits(value.type, y), "graph: %", value.name, " = ", called(node),
                " must be ", to_text(value.type), " (got: ", y, ")");
    if (last[static_cast<size_t>(node.output)] != static_cast<int>(n)) {
      live[static_cast<size_t>(node.output)] = std::move(y);
    }
  }

  Tensors results;
  for (const int output : outputs) {
    results.push_back(live[static_cast<size_t>(output)]);
    LATHE_CHECK(StateError, results.back().defined(), "graph: @",
                values[static_cast<size_t>(output)].name, " has no tensor yet; call bind()");
  }
  return results;
}

}  // namespace lathe::jit
