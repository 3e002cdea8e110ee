// Graph: a program of ops on tensors, as data. A graph is traced (trace.h), rewritten (passes.h),
// run, printed and read again. graph.cpp: construction and checks; print.cpp and parse.cpp: the
// text; run.cpp: execution. The namespace is jit, LibTorch's name for it.
//
//   lathe graph 1
//   input %x: f32[N,3,32,32]
//   param @conv.weight: f32[16,3,3,3]
//   %0: f32[N,16,32,32] = conv2d(%x, @conv.weight, none, stride=[1,1], pad=[1,1], dilation=[1,1],
//   groups=1)  # Net.conv                                            (one line in the text)
//   %1: f32[N,16,32,32] = relu(%0)  # Net
//   output %1
//
// N is the size of the batch; a size may be a multiple of it, as in 4*N.
// If a node belongs to a group, the group's number follows the call in braces: relu(%0) {2}.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/state_dict.h"
#include "lathe/core/tensor.h"

namespace lathe::jit {

struct Op;  // op_table.h

/// An integer that may depend on the batch size N: of_batch * N + fixed. One of the two numbers,
/// of_batch or fixed, is 0.
struct Size {
  int64_t of_batch = 0, fixed = 0;

  bool operator==(const Size&) const = default;
};

/// What is known about a value before the program runs.
struct Type {
  DType dtype = DType::kF32;
  std::vector<Size> shape = {};

  bool operator==(const Type&) const = default;
};

/// Where a value comes from.
enum class Origin : uint8_t {
  kInput,
  kParameter,  // a named tensor that training changes
  kBuffer,     // a named tensor that training does not change by gradients
  kConstant,   // a tensor that the program itself made, always with the same values
  kNode,
};

struct Value {
  std::string name;  // without % or @
  Origin origin = Origin::kNode;
  Type type = {};
  Tensor tensor = {};  // of a parameter, buffer or constant; undefined until it is bound
};

/// An attribute of a node: an argument of its op that is no tensor. In a graph's text, strings are
/// in quotes.
using Attribute = std::variant<bool, Size, double, std::vector<Size>, std::string>;

/// A call of an op, with one result.
struct Node {
  const Op* op = nullptr;
  std::vector<int> inputs = {};            // numbers of values; -1 where a tensor is undefined
  std::vector<Attribute> attributes = {};  // in the order of op->attributes
  int output = -1;                         // the number of its value
  std::string place = {};                  // the layer that made the call, "Net.conv1"
  // 0: no group. Neighbouring nodes with the same number above 0 may run together, piece by piece
  // (fuse_pointwise). The results do not depend on the group.
  int group = 0;
};

/// The node's attribute of this name; null if its op has none.
LATHE_API const Attribute* find_attribute(const Node& node, std::string_view name);
/// Like find_attribute(), for an attribute that the op has.
inline const Attribute& attribute_of(const Node& node, std::string_view name) {
  return *find_attribute(node, name);
}

/// True if the node calls one of `ops`.
LATHE_API bool calls_one_of(const Node& node, std::initializer_list<std::string_view> ops);

/// A program of ops. A value's number is its index in `values`. Passes may leave values that no
/// node and no output uses.
class LATHE_API Graph {
 public:
  std::vector<Value> values;
  std::vector<int> inputs, outputs;
  std::vector<Node> nodes;  // in an order in which they can run

  /// Adds a value; returns its number.
  int add(Value value);

  /// Runs the graph on these inputs. The results have gradients. If the types of the inputs have
  /// the batch size N instead of a number, the batch may have another size than in the trace. Nodes
  /// that no output needs do not run, except for nodes with effects (Op::has_effects).
  /// throws: StateError for another number of inputs, an undefined input, or a parameter, buffer or
  /// constant that is not bound; ShapeError, DTypeError if an input or a result has another shape
  /// or dtype than its type says; what the ops throw.
  Tensors run(const Tensors& inputs) const;
  /// Like run(), for a graph with one input and one output.
  /// throws: what run() throws; StateError if the graph has another number of inputs or outputs.
  Tensor operator()(const Tensor& x) const;

  /// The parameters, buffers and constants, by name. They share their values with the graph.
  StateDict state() const;
  /// Binds each parameter and buffer, and each constant that is not bound yet, to the entry of its
  /// name. Ignores entries of other names. If it throws, nothing has changed.
  /// throws: ValueError if an entry is missing; ShapeError or DTypeError if an entry has another
  /// shape or dtype than the value's type says.
  void bind(const StateDict& state);

  /// Moves the graph's parameters, buffers and constants to `device`. A model that shares them
  /// keeps its own tensors where they are.
  /// throws: NoCudaError without a GPU.
  void to(Device device);

  /// The graph as text, which parse() reads. A constant of one element is written as its value,
  /// unless it is NaN. Of all other tensors the text has only the names.
  std::string text() const;
  /// Writes text() to a stream.
  void print(std::ostream& out) const;
  /// The graph as a picture in Graphviz' language, for `dot -Tsvg`.
  std::string dot() const;
};

/// Reads a graph from a text. Its parameters and buffers are not bound. Checks that each value is
/// defined once and before its use. Checks that each op is known, and that it has the right number
/// of inputs and attributes of the right types. parse() does not check the values of attributes,
/// nor whether an input may be missing: the op checks these when the graph runs. parse() takes
/// memory in proportion to the text.
/// throws: DataError that names `name` and the line.
LATHE_API Graph parse(std::string_view text, std::string_view name = "graph");

/// True for a name that a value can have in a graph's text: letters, digits, "_", ".", "-" and "/".
LATHE_API bool is_name(std::string_view text);

/// A name that no value of the graph has: `wanted`, followed by as few "_" as possible.
LATHE_API std::string fresh_name(const Graph& graph, std::string wanted);

/// The type of a tensor, with fixed sizes.
LATHE_API Type type_of(const Tensor& t);

/// The type as text: "f32[N,3,32,32]".
LATHE_API std::string to_text(const Type& type);
/// The attribute as text: "[1,4*N]", "0.5", "\"reflect\"".
LATHE_API std::string to_text(const Attribute& attribute);

/// For each value, by its number: how often it is an input of a node or an output of the graph.
LATHE_API std::vector<int> count_uses(const Graph& graph);

/// The options of run_graph().
struct RunOptions {
  // If set: (*ways)[n] becomes a text that says how a group ran on a GPU, where n is the number of
  // the group's first node (run_pointwise(): `way`). It is "" for other nodes, and on the CPU.
  std::vector<std::string>* ways = nullptr;
  // true: inputs and results may have another floating dtype than their types say.
  bool any_floating = false;
};
/// Like graph.run(inputs), with options.
Tensors run_graph(const Graph& graph, const Tensors& inputs, const RunOptions& options = {});

}  // namespace lathe::jit
