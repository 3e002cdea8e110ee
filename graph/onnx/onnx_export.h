// What the export of an op to ONNX calls: Emission is one node of the graph. The ops themselves are
// in onnx_forms.cpp, onnx_layer_forms.cpp and onnx_quantized_forms.cpp. Internal: onnx.h is what
// others use.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "lathe/graph/graph.h"
#include "lathe/graph/onnx/onnx_file.h"

namespace lathe::jit::onnx {

using Names = std::vector<std::string>;
using FileAttributes = std::vector<FileAttribute>;

/// The file being written, and the names of what is in it.
class Exporter {
 public:
  explicit Exporter(const Graph& graph);

  /// The file's bytes.
  std::string bytes(std::string_view name,
                    const std::map<std::string, std::string, std::less<>>& metadata);

 private:
  friend class Emission;

  std::string fresh(const std::string& wanted);
  /// The name of a value; a tensor of the program is written when it is first asked for.
  std::string name_of(int value);
  std::string call(const char* op, const Names& inputs, const FileAttributes& attributes,
                   const std::string& place);
  std::string constant(const std::string& key, const Tensor& t);
  std::string batch();

  const Graph& graph_;
  OnnxFile file_;
  std::unordered_map<std::string, int> taken_;  // names, and the last number behind each
  std::vector<std::string> names_;              // of values; "" until they are written
  std::map<std::string, std::string> constants_;
  std::string batch_;  // the name of N as [1], once it is computed
};

/// A node of the graph on its way into the file. Names are those of values there.
/// throws, every function: ValueError that names the op and its layer.
class Emission {
 public:
  Emission(Exporter& exporter, const Node& node) : exporter_(exporter), node_(node) {}

  std::string_view op() const;
  size_t inputs() const { return node_.inputs.size(); }
  /// The number of inputs before the tensors in the op's options.
  size_t range_inputs() const;
  bool has(size_t i) const { return i < node_.inputs.size() && node_.inputs[i] >= 0; }
  /// "" for an input that is undefined.
  std::string in(size_t i);
  /// Input i converted to `dtype`.
  std::string in(size_t i, DType dtype) { return cast(in(i), type(i).dtype, dtype); }
  const Type& type(size_t i) const;
  /// The type of the result.
  const Type& type() const;
  size_t ndim(size_t i) const { return type(i).shape.size(); }
  /// Its size, which must not depend on the batch.
  int64_t fixed(size_t i, size_t d) const;
  /// A dimension of an input as a number from the front.
  int64_t dim(size_t i, int64_t d) const { return d < 0 ? d + static_cast<int64_t>(ndim(i)) : d; }

  bool has_attribute(std::string_view name) const;
  double real(std::string_view name) const;
  int64_t integer(std::string_view name) const;
  bool flag(std::string_view name) const;
  std::string word(std::string_view name) const;
  std::vector<int64_t> list(std::string_view name) const;
  const Attribute& attribute(std::string_view name) const;
  /// A number of any kind.
  double number(std::string_view name) const;

  /// Adds a node of the file.   → the name of its result
  std::string call(const char* op, const Names& inputs, const FileAttributes& attributes = {});
  std::string cast(const std::string& name, DType from, DType to);
  /// Tensors of the file; equal ones are written once.
  std::string number(double value, DType dtype);
  std::string integers(const std::vector<int64_t>& values);
  std::string filled(const std::vector<int64_t>& shape, double value, DType dtype);
  std::string tensor(const std::string& key, const Tensor& t) { return exporter_.constant(key, t); }
  /// Sizes as a tensor, which is computed where they depend on the batch.
  std::string sizes(const std::vector<Size>& values);
  std::string reshaped(const std::string& name, const std::vector<Size>& shape);
  [[noreturn]] void refuse(const std::string& why) const;

 private:
  Exporter& exporter_;
  const Node& node_;
};

/// A row of the table: an op, and how it becomes nodes of a file.   → the name of the result
struct Form {
  std::string_view op;
  std::string (*emit)(Emission&);
};
std::span<const Form> simple_forms();     // onnx_forms.cpp
std::span<const Form> layer_forms();      // onnx_layer_forms.cpp
std::span<const Form> quantized_forms();  // onnx_quantized_forms.cpp

}  // namespace lathe::jit::onnx
