// Graph::run: each node calls its op, or a group of them runs together (pointwise_run.h); a value
// is given up after its last use. A node whose result nobody needs does not run, unless it has
// effects. Contract: graph.h.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <variant>
#include <vector>

#include "lathe/autograd/autocast.h"
#include "lathe/core/format.h"
#include "lathe/graph/fused/pointwise_run.h"
#include "lathe/graph/graph.h"
#include "lathe/graph/op_table.h"
#include "lathe/graph/work.h"

namespace lathe::jit {

namespace {

/// The size of the batch of one run, learned from the inputs.
class Batch {
 public:
  explicit Batch(bool any_floating) : any_floating_(any_floating) {}

  /// throws: ShapeError if `t` is not of this shape for any batch, or for another one than an
  /// earlier input; DTypeError.
  void learn(const Value& input, const Tensor& t) {
    LATHE_CHECK(StateError, t.defined(), "graph: input %", input.name, " is undefined");
    LATHE_CHECK(DTypeError, takes(input.type.dtype, t.dtype()), "graph: input %", input.name,
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
    if (!takes(type.dtype, t.dtype()) || t.ndim() != static_cast<int>(type.shape.size()))
      return false;
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
  bool takes(DType wanted, DType got) const {
    return got == wanted || (any_floating_ && is_floating(got) && is_floating(wanted));
  }

  bool any_floating_;
  std::optional<int64_t> batch_;
};

std::string called(const Node& node) {
  return node.place.empty() ? node.op->name : concat(node.op->name, " of ", node.place);
}

/// True if one of a node's attributes depends on the batch.
bool names_batch(const std::vector<Attribute>& attributes) {
  const auto names = [](const Size& size) { return size.of_batch != 0; };
  return std::any_of(attributes.begin(), attributes.end(), [&](const Attribute& attribute) {
    if (const auto* const size = std::get_if<Size>(&attribute)) return names(*size);
    const auto* const list = std::get_if<std::vector<Size>>(&attribute);
    return list != nullptr && std::any_of(list->begin(), list->end(), names);
  });
}

/// One run of a graph: the tensors of the values that are still needed.
class Run {
 public:
  Run(const Graph& graph, const Tensors& given, const RunOptions& options)
      : graph_(graph),
        ways_(options.ways),
        any_floating_(options.any_floating),
        batch_(options.any_floating),
        needed_(needed_nodes(graph)),
        last_(last_uses(graph, needed_)),
        live_(graph.values.size()) {
    if (ways_ != nullptr) ways_->assign(graph.nodes.size(), "");
    for (size_t i = 0; i < live_.size(); ++i) live_[i] = graph.values[i].tensor;
    for (size_t i = 0; i < given.size(); ++i) {
      const auto at = static_cast<size_t>(graph.inputs[i]);
      batch_.learn(graph.values[at], given[i]);
      live_[at] = given[i];
    }
  }

  Tensors results() {
    for (size_t n = 0; n < graph_.nodes.size();) {
      const size_t end = end_of_group(n);
      if (!needed_[n]) {
        ++n;
      } else if (end - n > 1 && is_worth_it(n) && has_own_dtypes(n, end)) {
        const bool total = needed_behind(end) && adds_up(graph_, n, end, last_);
        call_group(n, end, total);
        n = total ? end + 1 : end;
      } else {
        call(n++);
      }
    }
    Tensors results;
    for (const int output : graph_.outputs) results.push_back(bound(output));
    return results;
  }

 private:
  const Value& value(int number) const { return graph_.values[static_cast<size_t>(number)]; }
  Tensor& live(int number) { return live_[static_cast<size_t>(number)]; }
  int last(int number) const { return last_[static_cast<size_t>(number)]; }

  Tensor bound(int number) {
    LATHE_CHECK(StateError, live(number).defined(), "graph: @", value(number).name,
                " has no tensor yet; call bind()");
    return live(number);
  }

  void check(const Node& node, const Tensor& y) const {
    LATHE_CHECK(ShapeError, batch_.fits(value(node.output).type, y), "graph: %",
                value(node.output).name, " = ", called(node), " must be ",
                to_text(value(node.output).type), " (got: ", y, ")");
  }

  void call(size_t n) {
    const Node& node = graph_.nodes[n];
    Tensors in;
    in.reserve(node.inputs.size());
    for (const int input : node.inputs) in.push_back(input < 0 ? Tensor() : bound(input));
    for (const int input : node.inputs) {
      if (input >= 0 && last(input) == static_cast<int>(n)) live(input) = {};
    }
    Tensor y = names_batch(node.attributes) ? node.op->call(in, batch_.fix(node.attributes))
                                            : node.op->call(in, node.attributes);
    check(node, y);
    if (last(node.output) != static_cast<int>(n)) live(node.output) = std::move(y);
  }

  /// Behind the nodes from n on that may run together with it, all of them needed. On a GPU a long
  /// group is several kernels.
  size_t end_of_group(size_t n) {
    const auto joins = [&](const Node& node) {
      return node.group != 0 && node.group == graph_.nodes[n].group && node.op->pointwise &&
             value(node.output).type.shape == value(graph_.nodes[n].output).type.shape;
    };
    size_t end = n;
    while (end < graph_.nodes.size() && needed_[end] && joins(graph_.nodes[end])) ++end;
    if (end - n > size_t{kMostKernelSteps} && reads_gpu(graph_.nodes[n]))
      end = n + size_t{kMostKernelSteps};
    return std::max(end, n + 1);
  }

  bool needed_behind(size_t end) const { return end < needed_.size() && needed_[end]; }

  Shape shape_of(size_t n) const {
    Shape shape;
    for (const Size& size : value(graph_.nodes[n].output).type.shape) {
      shape.push_back(batch_.value_of(size));
    }
    return shape;
  }

  /// On a GPU, one launch in place of two.
  bool is_worth_it(size_t n) {
    const int64_t elements = numel_of(shape_of(n));
    return elements >= kLeastFused || (elements > 1 && reads_gpu(graph_.nodes[n]));
  }

  /// Whether nodes compute in the graph's dtypes, which their group is made for. With
  /// RunOptions::any_floating they may not: under Autocast, or after an input of another dtype.
  bool has_own_dtypes(size_t begin, size_t end) const {
    if (!any_floating_) return true;
    for (size_t n = begin; n < end; ++n) {
      for (const int input : graph_.nodes[n].inputs) {
        const Tensor& t = input < 0 ? Tensor() : live_[static_cast<size_t>(input)];
        if (!t.defined()) continue;
        if (t.dtype() != value(input).type.dtype || amp::autocast_enabled(t.device())) return false;
      }
    }
    return true;
  }

  bool reads_gpu(const Node& node) {
    return std::any_of(node.inputs.begin(), node.inputs.end(), [&](int input) {
      return input >= 0 && live(input).defined() && live(input).device().is_cuda();
    });
  }

  /// Nodes begin … end - 1 as one program; with `total` node `end`, too, which adds_up().
  void call_group(size_t begin, size_t end, bool total) {
    auto program = std::make_shared<PointwiseProgram>();
    program->shape = shape_of(begin);
    std::unordered_map<int, int> operands;  // value → its number in the program
    std::vector<int> outside;
    for (size_t n = begin; n < end; ++n) operands[graph_.nodes[n].output] = -1;
    for (size_t n = begin; n < end; ++n) {
      for (const int input : graph_.nodes[n].inputs) {
        if (input < 0 || !operands.emplace(input, static_cast<int>(outside.size())).second)
          continue;
        outside.push_back(input);
      }
    }
    program->inputs = static_cast<int>(outside.size());
    std::vector<size_t> made;  // the nodes whose values are needed later
    for (size_t n = begin; n < end; ++n) {
      const Node& node = graph_.nodes[n];
      const int step = static_cast<int>(n - begin);
      operands[node.output] = program->inputs + step;
      program->steps.push_back(
          {node.op, {}, batch_.fix(node.attributes), value(node.output).type.dtype});
      for (const int input : node.inputs) {
        const int operand = input < 0 ? -1 : operands.at(input);
        program->steps.back().operands.push_back(operand);
        if (operand >= program->inputs) {
          program->steps[static_cast<size_t>(operand - program->inputs)].last = step;
        }
      }
      const int needed = last(node.output);
      if (total && node.output == graph_.nodes[end].inputs[0]) {
        program->total = {step, graph_.nodes[end].op->name == "mean"};
        continue;
      }
      if (needed == -1 || needed >= static_cast<int>(end)) {
        program->results.push_back(step);
        made.push_back(n);
      }
    }
    Tensors inputs;
    for (const int number : outside) inputs.push_back(bound(number));
    for (const int number : outside) {
      const int needed = last(number);
      if (needed != -1 && needed < static_cast<int>(end)) live(number) = {};
    }
    if (total) made.push_back(end);
    const Tensors values =
        run_pointwise(program, inputs, ways_ == nullptr ? nullptr : &(*ways_)[begin]);
    if (total) check(graph_.nodes[end], values.back());
    for (size_t i = 0; i < made.size(); ++i) live(graph_.nodes[made[i]].output) = values[i];
  }

  const Graph& graph_;
  std::vector<std::string>* const ways_;
  const bool any_floating_;
  Batch batch_;
  std::vector<bool> needed_;  // of nodes
  std::vector<int> last_;
  Tensors live_;
};

}  // namespace

Tensors run_graph(const Graph& graph, const Tensors& given, const RunOptions& options) {
  LATHE_CHECK(StateError, given.size() == graph.inputs.size(), "graph: it has ",
              graph.inputs.size(), " inputs, got ", given.size());
  return Run(graph, given, options).results();
}

Tensors Graph::run(const Tensors& given) const { return run_graph(*this, given); }

}  // namespace lathe::jit
