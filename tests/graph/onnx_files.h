// ONNX files for tests, written field by field: onnx.proto's messages, over core/formats'
// ProtobufMessage. What the library writes is made elsewhere.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "lathe/core/formats/protobuf_writer.h"

namespace lathe::testing {

/// An attribute as a message.
inline ProtobufMessage onnx_attribute(const std::string& name, int kind) {
  ProtobufMessage a;
  a.add_text(1, name);
  a.add_int(20, kind);
  return a;
}
inline ProtobufMessage onnx_int(const std::string& name, int64_t value) {
  ProtobufMessage a = onnx_attribute(name, 2);
  a.add_int(3, value);
  return a;
}
inline ProtobufMessage onnx_real(const std::string& name, float value) {
  ProtobufMessage a = onnx_attribute(name, 1);
  a.add_float(2, value);
  return a;
}
inline ProtobufMessage onnx_word(const std::string& name, const std::string& value) {
  ProtobufMessage a = onnx_attribute(name, 3);
  a.add_text(4, value);
  return a;
}
inline ProtobufMessage onnx_ints(const std::string& name, const std::vector<int64_t>& values) {
  ProtobufMessage a = onnx_attribute(name, 7);
  for (const int64_t value : values) a.add_int(8, value);
  return a;
}

/// A file that grows. Names that are empty stand for inputs and results that are not given.
class OnnxText {
 public:
  explicit OnnxText(int64_t opset = 17) : opset_(opset) {}

  /// Sizes: a number, or a word for one that varies.
  OnnxText& input(const std::string& name, const std::vector<std::string>& sizes, int type = 1) {
    graph_.add_message(11, value_info(name, sizes, type));
    return *this;
  }
  OnnxText& output(const std::string& name) {
    graph_.add_message(12, value_info(name, {}, 1));
    return *this;
  }
  OnnxText& node(const std::string& op, const std::vector<std::string>& inputs,
                 const std::vector<std::string>& outputs,
                 const std::vector<ProtobufMessage>& attributes = {}) {
    ProtobufMessage node;
    for (const auto& name : inputs) node.add_text(1, name);
    for (const auto& name : outputs) node.add_text(2, name);
    node.add_text(3, "the " + op);
    node.add_text(4, op);
    for (const auto& a : attributes) node.add_message(5, a);
    graph_.add_message(1, node);
    return *this;
  }
  /// A tensor with integers in int64_data, f32 in raw_data.
  OnnxText& integers(const std::string& name, const std::vector<int64_t>& values,
                     bool is_scalar = false) {
    ProtobufMessage t;
    if (!is_scalar) t.add_int(1, static_cast<int64_t>(values.size()));
    t.add_int(2, 7);
    for (const int64_t value : values) t.add_int(7, value);
    t.add_text(8, name);
    graph_.add_message(5, t);
    return *this;
  }
  OnnxText& reals(const std::string& name, const std::vector<int64_t>& shape,
                  const std::vector<float>& values) {
    ProtobufMessage t;
    for (const int64_t size : shape) t.add_int(1, size);
    t.add_int(2, 1);
    for (const float value : values) t.add_float(4, value);
    t.add_text(8, name);
    graph_.add_message(5, t);
    return *this;
  }
  /// Any field of the graph.
  OnnxText& field(int number, const ProtobufMessage& message) {
    graph_.add_message(number, message);
    return *this;
  }

  std::string file() const {
    ProtobufMessage opset, model;
    opset.add_text(1, "");
    opset.add_int(2, opset_);
    model.add_int(1, 8);
    model.add_message(7, graph_);
    model.add_message(8, opset);
    return model.text();
  }

 private:
  static ProtobufMessage value_info(const std::string& name, const std::vector<std::string>& sizes,
                                    int type) {
    ProtobufMessage shape, tensor, of_type, out;
    for (const std::string& text : sizes) {
      ProtobufMessage size;
      const bool is_number = text.find_first_not_of("0123456789") == std::string::npos;
      if (is_number) size.add_int(1, std::stoll(text));
      if (!is_number) size.add_text(2, text);
      shape.add_message(1, size);
    }
    tensor.add_int(1, type);
    tensor.add_message(2, shape);
    of_type.add_message(1, tensor);
    out.add_text(1, name);
    out.add_message(2, of_type);
    return out;
  }

  int64_t opset_;
  ProtobufMessage graph_;
};

}  // namespace lathe::testing
