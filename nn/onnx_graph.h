// A graph in ONNX's file format. Internal: onnx.h is what others use.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/formats/protobuf_writer.h"
#include "lathe/core/tensor.h"

namespace lathe::nn {

/// An attribute of a node: a number, or a list of integers.
struct OnnxAttribute {
  std::string name;
  enum class Type { kFloat, kInt, kInts } type;
  float real = 0;
  std::vector<int64_t> integers = {};

  static OnnxAttribute number(std::string name, double value) {
    return {std::move(name), Type::kFloat, static_cast<float>(value)};
  }
  static OnnxAttribute integer(std::string name, int64_t value) {
    return {std::move(name), Type::kInt, 0, {value}};
  }
  static OnnxAttribute list(std::string name, std::vector<int64_t> values) {
    return {std::move(name), Type::kInts, 0, std::move(values)};
  }
};

/// Nodes, weights, inputs and outputs. Values are identified by their names.
class OnnxGraph {
 public:
  explicit OnnxGraph(std::string_view name) { graph_.add_text(2, name); }

  /// Adds a node named `name` (if empty: the op's name). The value that it computes has that name.
  /// → the name
  /// throws: ValueError if it is taken.
  std::string node(std::string_view op, std::string name, const std::vector<std::string>& inputs,
                   const std::vector<OnnxAttribute>& attributes = {});
  /// Adds a constant, once per name; floats become f32.   → its name
  std::string weight(const std::string& name, const Tensor& value);
  /// `shape`: -1 stands for an unknown size; `first` may name the first size.
  void input(const std::string& name, DType dtype, const Dims& shape, std::string_view first = {});
  void output(const std::string& name, DType dtype, const Dims& shape, std::string_view first = {});

  /// An entry of the file's metadata_props.
  void metadata(const std::string& key, const std::string& value);

  /// The first bytes of every file(): they name this program.
  static std::string beginning();
  /// The file's bytes.
  /// throws: ValueError above 2 GiB.
  std::string file() const;

 private:
  ProtobufMessage graph_;
  std::vector<ProtobufMessage> metadata_;
  std::set<std::string> values_ = {"input"}, weights_;
};

}  // namespace lathe::nn
