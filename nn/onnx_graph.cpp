// ONNX's file format: messages and field numbers of onnx.proto, written with protobuf_writer.
#include "lathe/nn/onnx_graph.h"

#include "lathe/core/copy.h"
#include "lathe/core/formats/tensor_bytes.h"
#include "lathe/core/version.h"

namespace lathe::nn {

namespace {

constexpr int64_t kIrVersion = 7, kOpset = 13;  // of ONNX 1.8

/// TensorProto.DataType.
int64_t type_number(DType dtype) {
  switch (dtype) {
    case kF32: return 1;
    case kI64: return 7;
    default: LATHE_FAIL(DTypeError, "save_onnx: expected f32 or i64, got ", dtype);
  }
}

/// ValueInfoProto.
ProtobufMessage value_info(const std::string& name, DType dtype, const Dims& shape,
                           std::string_view first) {
  ProtobufMessage sizes;
  for (int i = 0; i < shape.size(); ++i) {
    ProtobufMessage size;
    if (i == 0 && !first.empty()) {
      size.add_text(2, first);
    } else if (shape[i] >= 0) {
      size.add_int(1, shape[i]);
    }
    sizes.add_message(1, size);
  }
  ProtobufMessage tensor, type, out;
  tensor.add_int(1, type_number(dtype));
  tensor.add_message(2, sizes);
  type.add_message(1, tensor);
  out.add_text(1, name);
  out.add_message(2, type);
  return out;
}

/// AttributeProto.
ProtobufMessage attribute_message(const OnnxAttribute& attribute) {
  constexpr int64_t kFloat = 1, kInt = 2, kInts = 7;
  ProtobufMessage out;
  out.add_text(1, attribute.name);
  switch (attribute.type) {
    case OnnxAttribute::Type::kFloat:
      out.add_float(2, attribute.real);
      out.add_int(20, kFloat);
      break;
    case OnnxAttribute::Type::kInt:
      out.add_int(3, attribute.integers[0]);
      out.add_int(20, kInt);
      break;
    case OnnxAttribute::Type::kInts:
      for (const int64_t value : attribute.integers) out.add_int(8, value);
      out.add_int(20, kInts);
      break;
  }
  return out;
}

}  // namespace

std::string OnnxGraph::node(std::string_view op, std::string name,
                            const std::vector<std::string>& inputs,
                            const std::vector<OnnxAttribute>& attributes) {
  if (name.empty()) name = op;
  LATHE_CHECK(ValueError, values_.insert(name).second, "save_onnx: the name \"", name,
              "\" stands for two values");
  ProtobufMessage node;
  for (const std::string& input : inputs) node.add_text(1, input);
  node.add_text(2, name);
  node.add_text(3, name);
  node.add_text(4, op);
  for (const OnnxAttribute& attribute : attributes) {
    node.add_message(5, attribute_message(attribute));
  }
  graph_.add_message(1, node);
  return name;
}

std::string OnnxGraph::weight(const std::string& name, const Tensor& value) {
  if (!weights_.insert(name).second) return name;
  Tensor written = value;
  if (is_floating(value.dtype()) && value.dtype() != kF32) {
    written = empty(value.shape(), {.dtype = kF32});
    copy_values(written, value);
  }
  written = dense_on_cpu(written);
  ProtobufMessage tensor;
  for (const int64_t size : written.shape()) tensor.add_int(1, size);
  tensor.add_int(2, type_number(written.dtype()));
  tensor.add_text(8, name);
  tensor.add_text(9, bytes_of(written));
  graph_.add_message(5, tensor);
  return name;
}

void OnnxGraph::input(const std::string& name, DType dtype, const Dims& shape,
                      std::string_view first) {
  graph_.add_message(11, value_info(name, dtype, shape, first));
}

void OnnxGraph::output(const std::string& name, DType dtype, const Dims& shape,
                       std::string_view first) {
  graph_.add_message(12, value_info(name, dtype, shape, first));
}

void OnnxGraph::metadata(const std::string& key, const std::string& value) {
  ProtobufMessage& entry = metadata_.emplace_back();
  entry.add_text(1, key);
  entry.add_text(2, value);
}

static ProtobufMessage begun_model() {
  ProtobufMessage model;
  model.add_int(1, kIrVersion);
  model.add_text(2, "lathe");
  return model;
}

std::string OnnxGraph::beginning() { return begun_model().text(); }

std::string OnnxGraph::file() const {
  ProtobufMessage opset, model = begun_model();
  opset.add_text(1, "");
  opset.add_int(2, kOpset);
  model.add_text(3, version());
  model.add_message(7, graph_);
  model.add_message(8, opset);
  for (const ProtobufMessage& entry : metadata_) model.add_message(14, entry);
  constexpr size_t kMost = (size_t{1} << 31) - 1;
  LATHE_CHECK(ValueError, model.text().size() <= kMost, "save_onnx: a model of ",
              model.text().size(), " bytes is above protobuf's limit of ", kMost);
  return model.text();
}

}  // namespace lathe::nn
