// Writing ONNX's messages: onnx.proto's field numbers, over core/formats/protobuf_writer.h.
#include "lathe/graph/onnx/onnx_file.h"

#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/formats/tensor_bytes.h"
#include "lathe/core/version.h"
#include "lathe/graph/onnx/onnx_proto.h"

namespace lathe::jit::onnx {

namespace {

/// AttributeProto.
ProtobufMessage attribute_message(const FileAttribute& attribute) {
  using Kind = NodeAttribute::Kind;
  ProtobufMessage out;
  out.add_text(1, attribute.first);
  const auto kind = [&](Kind k) { out.add_int(20, static_cast<int64_t>(k)); };
  if (const auto* integer = std::get_if<int64_t>(&attribute.second)) {
    out.add_int(3, *integer);
    kind(Kind::kInt);
  } else if (const auto* real = std::get_if<double>(&attribute.second)) {
    out.add_float(2, static_cast<float>(*real));
    kind(Kind::kFloat);
  } else if (const auto* text = std::get_if<std::string>(&attribute.second)) {
    out.add_text(4, *text);
    kind(Kind::kString);
  } else {
    for (const int64_t value : std::get<std::vector<int64_t>>(attribute.second)) {
      out.add_int(8, value);
    }
    kind(Kind::kInts);
  }
  return out;
}

ProtobufMessage begun_model() {
  ProtobufMessage model;
  model.add_int(1, OnnxFile::kIrVersion);
  model.add_text(2, "lathe");
  return model;
}

}  // namespace

void OnnxFile::node(std::string_view op, std::string_view name,
                    const std::vector<std::string>& inputs, std::string_view result,
                    const std::vector<FileAttribute>& attributes) {
  ProtobufMessage node;
  for (const std::string& input : inputs) node.add_text(1, input);
  node.add_text(2, result);
  node.add_text(3, name);
  node.add_text(4, op);
  for (const FileAttribute& a : attributes) node.add_message(5, attribute_message(a));
  graph_.add_message(1, node);
}

void OnnxFile::tensor(std::string_view name, const Tensor& value) {
  const Tensor dense = dense_on_cpu(value);
  ProtobufMessage tensor;
  for (const int64_t size : dense.shape()) tensor.add_int(1, size);
  tensor.add_int(2, number_of(dense.dtype()));
  tensor.add_text(8, name);
  tensor.add_text(9, bytes_of(dense));
  graph_.add_message(5, tensor);
}

void OnnxFile::value_info(int field, std::string_view name, const Type& type) {
  ProtobufMessage sizes, tensor, of_type, out;
  for (const Size& size : type.shape) {
    ProtobufMessage dimension;
    if (size.of_batch != 0) {
      dimension.add_text(2, to_text(Attribute(size)));
    } else {
      dimension.add_int(1, size.fixed);
    }
    sizes.add_message(1, dimension);
  }
  tensor.add_int(1, number_of(type.dtype));
  tensor.add_message(2, sizes);
  of_type.add_message(1, tensor);
  out.add_text(1, name);
  out.add_message(2, of_type);
  graph_.add_message(field, out);
}

void OnnxFile::metadata(std::string_view key, std::string_view value) {
  ProtobufMessage& entry = metadata_.emplace_back();
  entry.add_text(1, key);
  entry.add_text(2, value);
}

std::string OnnxFile::beginning() { return begun_model().text(); }

std::string OnnxFile::bytes(std::string_view name) {
  graph_.add_text(2, name);
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

}  // namespace lathe::jit::onnx
