// OnnxFile: an ONNX file being written, field by field. onnx_proto.h reads them. Internal: onnx.h
// is what others use.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lathe/core/formats/protobuf_writer.h"
#include "lathe/core/tensor.h"
#include "lathe/graph/graph.h"

namespace lathe::jit::onnx {

using FileAttribute =
    std::pair<const char*, std::variant<int64_t, double, std::string, std::vector<int64_t>>>;

/// Values are identified by their names, which the caller keeps unique.
class OnnxFile {
 public:
  static constexpr int64_t kOpset = 17, kIrVersion = 8;  // of ONNX 1.12

  /// A node; `name` is for people.
  void node(std::string_view op, std::string_view name, const std::vector<std::string>& inputs,
            std::string_view result, const std::vector<FileAttribute>& attributes);
  /// A tensor of the program.
  void tensor(std::string_view name, const Tensor& value);
  void input(std::string_view name, const Type& type) { value_info(11, name, type); }
  void output(std::string_view name, const Type& type) { value_info(12, name, type); }
  /// An entry of the file's metadata_props.
  void metadata(std::string_view key, std::string_view value);

  /// The first bytes of every file: they name this program.
  static std::string beginning();
  /// The file's bytes; `name` is the graph's.
  /// throws: ValueError above protobuf's limit of 2 GiB.
  std::string bytes(std::string_view name);

 private:
  void value_info(int field, std::string_view name, const Type& type);

  ProtobufMessage graph_;
  std::vector<ProtobufMessage> metadata_;
};

}  // namespace lathe::jit::onnx
