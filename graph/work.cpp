// check_work: what each node of a graph makes and how many steps that takes, from types alone. A
// text may hold any types and attributes, so that nothing here relies on their number or sense.
#include "lathe/graph/work.h"

#include <algorithm>
#include <initializer_list>
#include <span>
#include <variant>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/graph/op_table.h"

namespace lathe::jit {

namespace {

/// Of a batch of one. A double holds what no tensor can have.
double number_of(const Size& size) {
  return static_cast<double>(size.of_batch) + static_cast<double>(size.fixed);
}

double numbers_of(std::span<const Size> shape) {
  double count = 1;
  for (const Size& size : shape) count *= number_of(size);
  return count;
}

/// One node, seen as sizes.
class Call {
 public:
  Call(const Graph& graph, const Node& node) : graph_(graph), node_(node) {}

  bool is(std::string_view op) const { return node_.op->name == op; }
  bool is_one_of(std::initializer_list<std::string_view> ops) const {
    return calls_one_of(node_, ops);
  }

  /// Empty for an input that is not given.
  std::span<const Size> shape(size_t i) const {
    if (i >= node_.inputs.size() || node_.inputs[i] < 0) return {};
    return graph_.values[static_cast<size_t>(node_.inputs[i])].type.shape;
  }
  double numbers(size_t i) const { return i < node_.inputs.size() ? numbers_of(shape(i)) : 1; }
  double all_inputs() const {
    double sum = 0;
    for (size_t i = 0; i < node_.inputs.size(); ++i) sum += numbers(i);
    return sum;
  }
  /// A dimension from the front, or with a negative number from the end; 1 if there is none.
  double dim(size_t i, int64_t d) const {
    const std::span<const Size> sizes = shape(i);
    if (d < 0) d += std::ssize(sizes);
    return d < 0 || d >= std::ssize(sizes) ? 1 : number_of(sizes[static_cast<size_t>(d)]);
  }

  double real(std::string_view name) const {
    const Attribute* const a = find_attribute(node_, name);
    const double* const real = a != nullptr ? std::get_if<double>(a) : nullptr;
    return real != nullptr && *real > 0 ? *real : 0;
  }
  /// The d-th size of an attribute that is a list, or is one size; `otherwise` if there is none.
  double size(std::string_view name, size_t d, double otherwise) const {
    const Attribute* const a = find_attribute(node_, name);
    if (a == nullptr) return otherwise;
    if (const auto* const one = std::get_if<Size>(a)) return std::max(0.0, number_of(*one));
    const auto* const list = std::get_if<std::vector<Size>>(a);
    if (list == nullptr || d >= list->size()) return otherwise;
    return std::max(0.0, number_of((*list)[d]));
  }

  double declared() const {
    return numbers_of(graph_.values[static_cast<size_t>(node_.output)].type.shape);
  }

 private:
  const Graph& graph_;
  const Node& node_;
};

/// Sizes aligned at the right, each the larger of two, without the last `skip` dimensions.
double broadcast(const Call& c, size_t inputs, int64_t skip) {
  double count = 1;
  size_t ndim = 0;
  for (size_t i = 0; i < inputs; ++i) ndim = std::max(ndim, c.shape(i).size());
  for (int64_t d = skip + 1; d <= static_cast<int64_t>(ndim); ++d) {
    double most = 0;
    for (size_t i = 0; i < inputs; ++i) most = std::max(most, c.dim(i, -d));
    count *= most;
  }
  return count;
}

/// Attention's scores: one for each query and key, of every head.
double scores(const Call& c, size_t inputs) {
  const double queries = std::max(c.dim(0, -2), c.dim(3, -2));
  const double keys = std::max(c.dim(1, -2), c.dim(3, -1));
  return broadcast(c, inputs, 2) * queries * keys;
}

/// Places of windows in the last dimensions of x, or of filters turned round.
double places(const Call& c, int64_t spatial, bool turned) {
  double count = 1;
  for (int64_t d = 0; d < spatial; ++d) {
    const auto at = static_cast<size_t>(d);
    const double side = c.dim(0, d - spatial), pad = c.size("pad", at, 0);
    const double stride = std::max(1.0, c.size("stride", at, 1));
    const double taps = c.size("kernel", at, c.dim(1, d - spatial));
    const double span = c.size("dilation", at, 1) * (taps - 1);
    count *= turned ? (side - 1) * stride + span + c.size("output_pad", at, 0) + 1
                    : std::max(0.0, (side + 2 * pad - span) / stride + 1);
  }
  return count;
}

/// What the op makes of its inputs' types; less for ops whose results are no larger than an input.
double made(const Call& c, size_t inputs, bool pointwise) {
  if (pointwise) return broadcast(c, inputs, 0);
  if (c.is_one_of({"matmul", "bmm"})) {
    return broadcast(c, 2, 2) * c.dim(0, -2) * c.dim(1, c.shape(1).size() > 1 ? -1 : 9);
  }
  if (c.is("scaled_dot_product_attention")) {  // not every device does it without all scores
    return scores(c, inputs) + broadcast(c, inputs, 2) * c.dim(0, -2) * c.dim(2, -1);
  }
  if (c.is_one_of({"linear", "mlp"})) {
    const double rows = c.numbers(0) / std::max(1.0, c.dim(0, -1));
    double count = 0;
    for (size_t i = 1; i < inputs; i += 2) count += rows * c.dim(i, 0);
    return count;
  }
  if (c.is("quantized_linear")) {
    return c.numbers(0) / std::max(1.0, c.dim(0, -1)) * c.dim(1, 0);
  }
  if (c.is_one_of({"conv2d", "fused_conv2d", "quantized_conv2d"})) {
    return c.dim(0, 0) * c.dim(1, 0) * places(c, 2, false);
  }
  if (c.is("conv1d")) return c.dim(0, 0) * c.dim(1, 0) * places(c, 1, false);
  if (c.is("conv_transpose2d")) {
    return c.dim(0, 0) * c.dim(1, 1) * c.size("groups", 0, 1) * places(c, 2, true);
  }
  if (c.is("pad")) {
    double count = 1;
    for (int64_t d = 1; d <= std::ssize(c.shape(0)); ++d) {
      const auto at = static_cast<size_t>(2 * d - 2);
      count *= c.dim(0, -d) + c.size("amounts", at, 0) + c.size("amounts", at + 1, 0);
    }
    return count;
  }
  const double planes = c.numbers(0) / std::max(1.0, c.dim(0, -1) * c.dim(0, -2));
  if (c.is("adaptive_avg_pool2d")) return planes * c.size("size", 0, 1) * c.size("size", 1, 1);
  if (c.is("upsample")) {
    const auto side = [&](size_t at, int64_t d, const char* scale) {
      const double given = c.size("size", at, 0);
      return given > 0 ? given : c.dim(0, d) * c.real(scale);
    };
    return planes * side(0, -2, "scale_rows") * side(1, -1, "scale_columns");
  }
  if (c.is_one_of({"max_pool2d", "avg_pool2d", "quantized_max_pool2d"})) return c.numbers(0);
  if (c.is_one_of({"cat", "stack"})) return c.all_inputs();
  if (c.is_one_of({"embedding", "index_select"})) {
    return c.numbers(1) * c.numbers(0) /
           std::max(1.0, c.dim(0, int64_t(std::clamp(c.size("dim", 0, 0), -64.0, 64.0))));
  }
  if (c.is("gather")) return c.numbers(1);
  return 0;
}

/// Multiplications, comparisons and the like of a result of `count` numbers.
double steps(const Call& c, size_t inputs, double count) {
  if (c.is_one_of({"matmul", "bmm"})) return count * c.dim(0, -1);
  if (c.is("scaled_dot_product_attention")) {
    return c.all_inputs() + scores(c, inputs) * (c.dim(0, -1) + c.dim(2, -1));
  }
  if (c.is_one_of({"linear", "mlp"})) {
    const double rows = c.numbers(0) / std::max(1.0, c.dim(0, -1));
    double sum = c.numbers(0);
    for (size_t i = 1; i < inputs; i += 2) sum += rows * c.numbers(i);
    return sum;
  }
  if (c.is("quantized_linear")) return c.numbers(0) + count * c.dim(1, -1);
  if (c.is_one_of({"conv1d", "conv2d", "fused_conv2d", "quantized_conv2d"})) {
    return c.numbers(0) + count * c.numbers(1) / std::max(1.0, c.dim(1, 0));
  }
  if (c.is("conv_transpose2d")) {
    return count + c.numbers(0) * c.numbers(1) / std::max(1.0, c.dim(1, 0));
  }
  if (c.is_one_of({"max_pool2d", "avg_pool2d", "quantized_max_pool2d"})) {
    return c.numbers(0) + count * c.size("kernel", 0, 1) * c.size("kernel", 1, 1);
  }
  return std::max(count, c.all_inputs());
}

struct Sum {
  double all = 0, most = 0;
  size_t node = 0;  // that has most of it

  void add(double count, size_t n) {
    all += count;
    if (count > most) node = n;
    most = std::max(most, count);
  }
};

}  // namespace

std::vector<bool> needed_nodes(const Graph& graph) {
  std::vector<bool> values(graph.values.size()), nodes(graph.nodes.size());
  for (const int output : graph.outputs) values[static_cast<size_t>(output)] = true;
  for (size_t n = graph.nodes.size(); n-- > 0;) {
    nodes[n] =
        graph.nodes[n].op->has_effects() || values[static_cast<size_t>(graph.nodes[n].output)];
    if (!nodes[n]) continue;
    for (const int input : graph.nodes[n].inputs) {
      if (input >= 0) values[static_cast<size_t>(input)] = true;
    }
  }
  return nodes;
}

std::vector<bool> written_values(const Graph& graph) {
  std::vector<bool> written(graph.values.size());
  for (const Node& node : graph.nodes) {
    for (const int at : node.op->writes) {
      const int number = node.inputs[static_cast<size_t>(at)];
      if (number >= 0) written[static_cast<size_t>(number)] = true;
    }
  }
  return written;
}

bool reads_any(const Node& node, const std::vector<bool>& values) {
  return std::any_of(node.inputs.begin(), node.inputs.end(), [&](int number) {
    return number >= 0 && values[static_cast<size_t>(number)];
  });
}

std::vector<int> last_uses(const Graph& graph, const std::vector<bool>& needed) {
  std::vector<int> last(graph.values.size(), -1);
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!needed[n]) continue;
    for (const int input : graph.nodes[n].inputs) {
      if (input >= 0) last[static_cast<size_t>(input)] = static_cast<int>(n);
    }
    last[static_cast<size_t>(graph.nodes[n].output)] = static_cast<int>(n);  // if nobody reads it
  }
  for (const int output : graph.outputs) last[static_cast<size_t>(output)] = -1;
  return last;
}

bool adds_up(const Graph& graph, size_t begin, size_t end, const std::vector<int>& last) {
  if (end >= graph.nodes.size()) return false;
  const Node& node = graph.nodes[end];
  if ((node.op->name != "sum" && node.op->name != "mean") || node.attributes.size() != 2)
    return false;
  const auto* const dims = std::get_if<std::vector<Size>>(&node.attributes[0]);
  const auto* const keepdim = std::get_if<bool>(&node.attributes[1]);
  if (dims == nullptr || !dims->empty() || keepdim == nullptr || *keepdim) return false;
  const int x = node.inputs[0];
  if (x < 0 || last[static_cast<size_t>(x)] != static_cast<int>(end)) return false;
  const auto makes = [x](const Node& of) { return of.output == x; };
  const auto first = graph.nodes.begin();
  const DType dtype = graph.values[static_cast<size_t>(x)].type.dtype;
  return (dtype == kF32 || dtype == kF64) &&
         std::any_of(first + static_cast<std::ptrdiff_t>(begin),
                     first + static_cast<std::ptrdiff_t>(end), makes);
}

void check_work(const Graph& graph, std::string_view name) {
  double inputs = 0, bytes = 0;
  for (const int input : graph.inputs) {
    inputs += numbers_of(graph.values[static_cast<size_t>(input)].type.shape);
  }
  for (const Value& value : graph.values) {
    if (value.tensor.defined()) bytes += static_cast<double>(value.tensor.bytes());
  }
  const std::vector<bool> needed = needed_nodes(graph);
  Sum results, work;
  for (size_t n = 0; n < graph.nodes.size(); ++n) {
    if (!needed[n]) continue;
    const Node& node = graph.nodes[n];
    const Call call(graph, node);
    const size_t count = node.inputs.size();
    const double numbers = std::max(call.declared(), made(call, count, node.op->pointwise));
    results.add(numbers, n);
    work.add(steps(call, count, numbers), n);
  }
  const auto refuse_above = [&](const Sum& sum, double most, const char* what, const char* bound) {
    if (sum.all <= most) return;
    const Node& node = graph.nodes[sum.node];
    const Value& value = graph.values[static_cast<size_t>(node.output)];
    LATHE_FAIL(DataError, name, ": for a batch of one the graph asks for ", sum.all, " ", what,
               ", most of them for %", value.name, " = ", node.op->name,
               node.place.empty() ? "" : " of ", node.place, ", ", to_text(value.type),
               "; a graph of ", bytes, " bytes of tensors and ", inputs,
               " numbers of inputs may ask for ", bound, " = ", most);
  };
  const double size = bytes + inputs;
  refuse_above(results, kFreeNumbers + kNumbersPerByte * size, "numbers in results",
               "2^28 + 1024 * (bytes + numbers)");
  refuse_above(work, kFreeSteps + kStepsPerPair * size * inputs, "steps of arithmetic",
               "2^34 + 16 * (bytes + numbers) * numbers");
}

}  // namespace lathe::jit
