// trace: two runs of a program under a Tracer, and the graph that both have in common.
#include "lathe/graph/trace.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <exception>
#include <utility>

#include "lathe/autograd/autocast.h"
#include "lathe/autograd/cast_cache.h"
#include "lathe/autograd/grad_mode.h"
#include "lathe/core/format.h"
#include "lathe/core/formats/tensor_bytes.h"
#include "lathe/core/strided_extent.h"
#include "lathe/graph/batch_constants.h"
#include "lathe/graph/op_table.h"
#include "lathe/graph/tracer.h"
#include "lathe/ops/binary.h"
#include "lathe/ops/cast.h"
#include "lathe/ops/isclose.h"
#include "lathe/ops/join.h"
#include "lathe/ops/memory_format.h"
#include "lathe/ops/rearrange.h"
#include "lathe/ops/views.h"

namespace lathe::jit {

namespace {

using Program = std::function<Tensors(const Tensors&)>;

Graph record(const Program& f, const Tensors& inputs, const nn::Module* module, Purpose purpose) {
  if (Autocast::active()) amp::drop_casts();  // this run has to make its casts itself
  Tracer tracer(purpose);
  if (module != nullptr) {
    for (const auto& [name, t] : module->named_parameters())
      tracer.add(name, Origin::kParameter, t);
    for (const auto& [name, t] : module->named_buffers()) tracer.add(name, Origin::kBuffer, t);
  }
  for (size_t i = 0; i < inputs.size(); ++i) {
    tracer.add(inputs.size() == 1 ? "x" : concat("x", i), Origin::kInput, inputs[i]);
  }
  return tracer.finish(f(inputs));
}

/// x backwards. Where that is x again, as of zeros(), floats get larger by 1; an integer may be an
/// index, and stays.
Tensor reversed(const Tensor& x) {
  Dims all;
  for (int d = 0; d < x.ndim(); ++d) all.push_back(d);
  const Tensor y = all.empty() ? clone(x) : flip(x, all);
  return is_floating(x.dtype()) && equal(y, x) ? add(y, 1) : y;
}

/// x in memory of its own, with gaps where x has some: it decides whether a view can be made.
Tensor copy_of(const Tensor& x) {
  const int64_t extent = strided_extent(x.shape(), x.strides()).value_or_throw();
  return alias(clone(alias(x, {extent}, {1}, x.offset())), x.shape(), x.strides(), 0);
}

/// More than twice as large: of 2 and 3 rows, each half has 1, and seems not to depend on them.
int64_t larger_batch(int64_t batch) { return 2 * batch + 1; }

/// Two graphs of the same program, for batches of `first` and `second`: is each number of one of
/// them the same in the other, or a multiple of the batch?
class Comparison {
 public:
  Comparison(const Graph& other, int64_t first, int64_t second)
      : other_(other), first_(first), second_(second) {}

  Graph merged(Graph graph) const {
    const size_t nodes = std::min(graph.nodes.size(), other_.nodes.size());
    for (size_t n = 0; n < nodes; ++n) compare(graph.nodes[n], other_.nodes[n]);
    if (graph.nodes.size() != other_.nodes.size() || graph.outputs != other_.outputs) {
      const Graph& longer = graph.nodes.size() > nodes ? graph : other_;
      differs(longer.nodes.size() > nodes
                  ? concat("only one of the two runs calls ", called(longer.nodes[nodes]))
                  : "they return other tensors");
    }
    if (graph.values.size() != other_.values.size()) {
      differs(concat("they use ", graph.values.size(), " and ", other_.values.size(), " tensors"));
    }
    for (size_t i = 0; i < graph.values.size(); ++i) compare(graph.values[i], other_.values[i]);
    return graph;
  }

 private:
  static std::string called(const Node& node) {
    return node.place.empty() ? node.op->name : concat(node.op->name, " of ", node.place);
  }

  [[noreturn]] void differs(const std::string& how) const {
    const std::string other = first_ == second_ ? "other values" : "another batch";
    const std::string hint =
        first_ == second_ ? "" : "; with dynamic_batch = false a graph is made for one batch";
    LATHE_FAIL(TraceError, "trace: the program is not the same for ", other, ": ", how, hint);
  }

  void compare(Node& a, const Node& b) const {
    if (a.op != b.op || a.inputs != b.inputs || a.output != b.output) {
      differs(concat(called(a), " in one run, ", called(b), " in the other, or of other tensors"));
    }
    if (a.attributes.size() != b.attributes.size()) {
      differs(concat("the number of arguments of ", called(a)));
    }
    for (size_t i = 0; i < a.attributes.size(); ++i) {
      const std::string before = to_text(a.attributes[i]);
      if (compare(a.attributes[i], b.attributes[i])) continue;
      differs(concat(a.op->attributes[i].name, ", an argument of ", called(a), ", is ", before,
                     " and ", to_text(b.attributes[i])));
    }
  }

  bool compare(Attribute& a, const Attribute& b) const {
    if (a.index() != b.index()) return false;
    if (auto* const size = std::get_if<Size>(&a)) return compare(*size, std::get<Size>(b));
    if (auto* const list = std::get_if<std::vector<Size>>(&a)) {
      return compare(*list, std::get<std::vector<Size>>(b));
    }
    if (const auto* const real =
            std::get_if<double>(&a)) {  // NaN is unequal to itself, 0 has a sign
      return std::bit_cast<uint64_t>(*real) == std::bit_cast<uint64_t>(std::get<double>(b));
    }
    return a == b;
  }

  bool compare(std::vector<Size>& a, const std::vector<Size>& b) const {
    bool same = a.size() == b.size();
    for (size_t i = 0; same && i < a.size(); ++i) same = compare(a[i], b[i]);
    return same;
  }

  bool compare(Size& a, const Size& b) const {
    if (a == b) return true;
    if (first_ == second_) return false;
    const int64_t more = b.fixed - a.fixed, rows = second_ - first_;
    if (more <= 0 || more % rows != 0) return false;
    const int64_t per_row = more / rows;
    if (a.fixed != per_row * first_ || b.fixed != per_row * second_) return false;
    a = {per_row, 0};
    return true;
  }

  void compare(Value& a, const Value& b) const {
    const std::string name = a.origin == Origin::kNode ? "%" + a.name : a.name;
    if (a.origin != b.origin || a.type.dtype != b.type.dtype) differs(concat("value ", name));
    if (a.origin == Origin::kConstant) {
      const bool same =
          a.type == b.type && bytes_of(dense_on_cpu(a.tensor)) == bytes_of(dense_on_cpu(b.tensor));
      if (!same) {
        differs(concat("a tensor that no traced op made has other values or another shape (",
                       a.tensor, ", ", b.tensor, ")"));
      }
    } else if (!compare(a.type.shape, b.type.shape)) {
      differs(concat("the shape of ", name, " is ", to_text(a.type), " and ", to_text(b.type)));
    }
  }

  const Graph& other_;
  int64_t first_, second_;
};

}  // namespace

/// For a larger batch, x's first row backwards, and x twice. NHWC stays NHWC: a program may do more
/// for other orders.
Tensor varied(const Tensor& x, bool larger) {
  const Tensor y = larger ? cat({reversed(narrow(x, 0, 0, 1)), x, x}, 0) : reversed(x);
  return x.ndim() == 4 ? contiguous(y, conv2d_format(x)) : y;
}

Graph common_graph(const Program& f, const TwoRuns& runs, const nn::Module* module,
                   Purpose purpose) {
  Tensors first;
  for (const Tensor& x : runs.first) first.push_back(copy_of(x));
  Graph graph = record(f, first, module, purpose);
  Graph other = record(f, runs.second, module, purpose);
  const auto [rows, more_rows] = std::pair(runs.first_rows, runs.second_rows);
  const auto merged = [&] { return Comparison(other, rows, more_rows).merged(graph); };
  std::exception_ptr why;
  try {
    return merged();
  } catch (const TraceError&) {
    if (purpose != Purpose::kProgram || rows == more_rows) throw;
    why = std::current_exception();
  }
  share_batch_constants(graph, rows, other, more_rows);
  try {
    return merged();
  } catch (const TraceError&) {
    std::rethrow_exception(why);
  }
}

Graph trace(const std::function<Tensors(const Tensors&)>& f, const Tensors& examples,
            const TraceOptions& options) {
  LATHE_CHECK(ValueError, !examples.empty(), "trace: there is no example");
  for (const Tensor& x : examples) {
    LATHE_CHECK(ValueError, x.defined(), "trace: an example is an undefined tensor");
  }
  const bool dynamic = options.dynamic_batch && examples[0].ndim() > 0 && examples[0].dim(0) > 0;
  const int64_t batch = dynamic ? examples[0].dim(0) : 0;
  const NoGrad off;
  TwoRuns runs{examples, {}, batch, dynamic ? larger_batch(batch) : batch};
  for (const Tensor& x : examples) {
    runs.second.push_back(varied(x, dynamic && x.ndim() > 0 && x.dim(0) == batch));
  }
  return common_graph(f, runs, options.module, Purpose::kProgram);
}

Graph trace(nn::Module& module, const Tensor& example, TraceOptions options) {
  options.module = &module;
  return trace([&](const Tensors& x) { return Tensors{module(x[0])}; }, {example}, options);
}

}  // namespace lathe::jit
