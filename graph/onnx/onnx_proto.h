// The messages of ONNX files, read one after the other: onnx.proto's names and field numbers.
// Internal: onnx.h is what others use.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/dtype.h"
#include "lathe/core/formats/protobuf_reader.h"
#include "lathe/core/tensor.h"

namespace lathe::jit::onnx {

/// AttributeProto. Texts lie in the file.
struct NodeAttribute {
  /// AttributeProto.AttributeType, as far as operators here have such attributes.
  enum class Kind : uint8_t {
    kFloat = 1,
    kInt = 2,
    kString = 3,
    kTensor = 4,
    kFloats = 6,
    kInts = 7
  };

  std::string_view name = {};
  Kind kind = Kind::kFloat;
  float real = 0;
  int64_t integer = 0;
  std::string_view bytes = {};  // of a string, or the message of a tensor
  std::vector<float> reals = {};
  std::vector<int64_t> integers = {};
  bool is_used = false;  // the import of the operator has asked for it
};

/// NodeProto.
struct FileNode {
  std::string_view op, name, domain;
  std::vector<std::string_view> inputs, outputs;  // "": not given
  std::vector<NodeAttribute> attributes;
};

/// throws: DataError.
FileNode read_node(ProtobufReader message);

/// The dtype of a TensorProto.DataType; none for strings, complex numbers and the like.
std::optional<DType> dtype_of_number(int64_t number);
/// throws: DTypeError for a dtype that ONNX lacks; it has all of ours.
int64_t number_of(DType dtype);

/// TensorProto.name.
std::string_view read_tensor_name(ProtobufReader message);
/// A TensorProto on the CPU. `file` stands for the file in errors.
/// throws: DataError, also for values in another file.
Tensor read_tensor(ProtobufReader message, std::string_view file);

}  // namespace lathe::jit::onnx
