// What the import of an ONNX operator calls: Call is one node of the file. The operators themselves
// are in onnx_pointwise.cpp, onnx_layers.cpp, onnx_shapes.cpp and onnx_parts.cpp. Internal: onnx.h
// is what others use.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lathe/graph/graph.h"
#include "lathe/graph/onnx/onnx.h"
#include "lathe/graph/onnx/onnx_proto.h"

namespace lathe::jit::onnx {

/// Integers that are known while the file is read: shapes, and what is computed from them. They
/// become arguments of ops. Truth values are 0 and 1.
struct Known {
  std::vector<Size> values;
  bool is_scalar = false;  // 0-d; else 1-d
  DType dtype = kI64;

  Type type() const {
    if (is_scalar) return {dtype, {}};
    return {dtype, {{0, static_cast<int64_t>(values.size())}}};
  }
};
/// Longer tensors of integers are ordinary tensors, so that no chain of Concat can double them for
/// ever.
inline constexpr size_t kMostKnown = 64;

/// False for negative sizes, too many dimensions and too many elements.
bool is_possible(const Type& type);

/// A size that does not depend on the batch.
inline Size of(int64_t size) { return {0, size}; }
inline Size of(size_t size) { return {0, static_cast<int64_t>(size)}; }

using Named = std::initializer_list<std::pair<const char*, Attribute>>;

/// What an ONNX name stands for. Tensors of the file become values of the graph when a node needs
/// them.
struct Binding {
  int value = -1;
  std::optional<Known> known = {};
  std::string_view tensor = {};  // the message of an initialiser or of a Constant
  std::string_view name = {};    // of the tensor
};

class Importer;

/// One node of the file. Inputs are counted as in the operator's specification; one that is left
/// out at the end, or has no name, is not given.
/// throws, every function: DataError that names file, node, operator and opset.
class Call {
 public:
  Call(Importer& importer, FileNode& node, int64_t opset)
      : importer_(importer), node_(node), opset_(opset) {}

  // --- the node ---
  std::string_view op() const { return node_.op; }
  int64_t opset() const { return opset_; }
  bool for_training() const;  // load_onnx_module()
  size_t inputs() const { return node_.inputs.size(); }
  size_t outputs() const { return node_.outputs.size(); }
  bool has(size_t i) const { return i < node_.inputs.size() && !node_.inputs[i].empty(); }

  /// The number of an input's value in the graph; -1 if it is not given.
  int maybe(size_t i);
  /// Like maybe(), for an input that must be given.
  int in(size_t i);
  Type type(size_t i);
  /// The size of dimension `d` of an input, which must not depend on the batch.
  int64_t fixed(const Type& type, size_t d) const;
  /// The integers of an input if they are known, else null.
  const Known* known(size_t i);
  /// Like known(), for integers that must be known. `what` names them in the error.
  const Known& must_know(size_t i, const char* what);
  std::vector<int64_t> integers(size_t i, const char* what);
  /// An input's tensor if it is one of the file.
  std::optional<Tensor> constant(size_t i);

  // --- its attributes ---
  int64_t integer(std::string_view name, int64_t otherwise);
  double real(std::string_view name, double otherwise);
  std::optional<std::vector<int64_t>> list(std::string_view name);
  std::string word(std::string_view name, std::string_view otherwise);
  /// The attribute, or null; marks it as used.
  const NodeAttribute* find(std::string_view name);
  /// The tensor of an attribute.
  Tensor read(const NodeAttribute& attribute) const;
  /// An attribute that changes nothing here.
  void ignore(std::string_view name) { find(name); }
  /// Only this value has a counterpart.
  void only(std::string_view name, int64_t value);

  /// A dimension counted from the front.
  size_t axis(int64_t axis, size_t ndim) const;
  /// Axes that are an attribute before opset `since`, and input `i` from then on; none: all.
  std::vector<size_t> axes(int64_t since, size_t i, size_t ndim);

  // --- its nodes in the graph ---
  /// Adds a call of an op of op_table.h.   → the number of its result
  int add(const char* op, std::vector<int> inputs, const Type& type, Named attributes = {});
  /// A constant of the program.
  int constant(const Tensor& t);
  int number(double value, DType dtype);
  /// The elements of `value` in another shape.
  int reshaped(int value, const std::vector<Size>& shape);
  const Type& type_of(int value) const;
  /// False if the next result has no name, so that nobody can read it.
  bool is_named() const;
  /// The node's results, in their order.
  void result(int value);
  /// Its numbers wrap to its dtype.
  void result(Known known);
  /// The result is input `i`.
  void pass(size_t i);
  /// The result is a tensor of the file.
  void result_tensor(std::string_view message);

  /// Arithmetic with sizes.
  /// throws: DataError if numbers do not fit, or depend on the batch in another way than as
  /// multiples.
  Size times(const Size& a, const Size& b) const;
  Size divided(const Size& a, const Size& b) const;
  Size plus(const Size& a, const Size& b, int64_t sign = 1) const;
  Size numel(std::span<const Size> shape) const;
  std::vector<Size> broadcast(const std::vector<Size>& a, const std::vector<Size>& b) const;
  [[noreturn]] void refuse(const std::string& why) const;

  /// Refuses attributes that the import has not asked for, and results that it has not given.
  void finish() const;

 private:
  Binding& binding(size_t i);

  Importer& importer_;
  FileNode& node_;
  int64_t opset_;
  size_t results_ = 0;
};

/// A row of the table: an operator, and how it becomes nodes.
struct Operator {
  std::string_view name;
  void (*import)(Call&);
};
std::span<const Operator> pointwise_operators();  // onnx_pointwise.cpp
std::span<const Operator> layer_operators();      // onnx_layers.cpp
std::span<const Operator> shape_operators();      // onnx_shapes.cpp
std::span<const Operator> part_operators();       // onnx_parts.cpp

/// Operators that are called as an op of graphs is: both ways. Their inputs have one dtype.
struct SameOperator {
  const char *onnx, *op;
  int inputs;     // 1 or 2
  bool is_truth;  // the result is bool
};
std::span<const SameOperator> same_operators();  // onnx_pointwise.cpp

/// The file being read: what names stand for, and the graph so far.
class Importer {
 public:
  /// `for_training`: batch norms move their statistics, and dropouts are nodes.
  Importer(std::string_view file, std::string_view name, bool for_training)
      : file_(file), name_(name), for_training_(for_training) {}

  Graph graph(ProtobufReader message, int64_t opset);

 private:
  friend class Call;

  void initialisers(ProtobufReader graph);
  void input(ProtobufReader value_info);
  void node(FileNode& node, int64_t opset);
  void output(ProtobufReader value_info);
  Type input_type(ProtobufReader type, std::string_view of);
  Size input_size(ProtobufReader dimension, size_t d, std::string_view of);
  int value_of(Binding& binding);
  Tensor tensor_in(const Binding& binding) const;
  std::string fresh(std::string_view wanted);
  void define(std::string_view name, Binding binding);
  [[noreturn]] void wrong(const std::string& what) const;

  std::string_view file_, name_, batch_name_ = {};
  bool has_batch_ = false, for_training_;
  Graph graph_;
  std::unordered_map<std::string_view, Binding> bindings_;
  std::unordered_map<std::string, int> taken_;  // names in the graph, how often each was asked for
};

/// The content of a file. Throws what load_onnx() throws.
std::string read_bytes(const std::string& path);
OnnxModel read(std::string_view bytes, std::string_view name, bool for_training);

}  // namespace lathe::jit::onnx
