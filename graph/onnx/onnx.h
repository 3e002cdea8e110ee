// ONNX files: graphs for, and of, other programs (PyTorch, onnxruntime, TensorRT, OpenVINO).
//   jit::save_onnx(jit::trace(model, images), "resnet18.onnx");
//   const jit::Graph graph = jit::load_onnx("mobilenet_v2.onnx").graph;
// Reading: onnx_proto.h (the messages), onnx_import.h (what an operator's import calls),
// onnx_pointwise.cpp, onnx_layers.cpp, onnx_shapes.cpp and onnx_parts.cpp (the operators, a line
// each). Writing: onnx_file.h (the messages), onnx_export.h (what the export of an op calls),
// onnx_forms.cpp and onnx_layer_forms.cpp (the ops, a line each). docs/formats.md, "ONNX", has the
// lists.
// ref: https://onnx.ai/onnx/repo-docs/IR.html
#pragma once

#include <map>
#include <string>
#include <string_view>

#include "lathe/core/config.h"
#include "lathe/graph/graph.h"

namespace lathe::jit {

struct OnnxModel {
  Graph graph;
  std::map<std::string, std::string, std::less<>> metadata;  // the file's metadata_props
};

/// The graph of a file, on the CPU, of opset 7 or later. Nothing of it is executed: each operator
/// becomes nodes of a Graph, whose types are computed from the types of the inputs. A first size
/// without a number ("batch") becomes N; all inputs that have one have the same batch. What depends
/// on shapes alone becomes arguments. Nodes that no output needs are left out. Weights are
/// parameters with the file's names; characters that a name cannot have become "_".
/// What run() will compute is bounded by the file's tensors and the inputs' types: for a batch of
/// one 2^28 numbers in all results together and 2^34 steps of arithmetic, and more for larger
/// tensors and inputs (docs/formats.md, "ONNX").
/// throws: FileError if the file cannot be read; DataError that names the file, the node, its
/// operator and the opset, or the byte, for a damaged file, an operator or attribute without a
/// counterpart, tensors in other files ("external data"), sizes other than the first without a
/// number, more work than that, and whatever else a Graph cannot hold. Memory: at most 256 times
/// the file's size and 1 MiB; about twice its size for a file that is mostly weights.
LATHE_API OnnxModel load_onnx(const std::string& path);

/// The same for a file's bytes; `name` stands for it in messages.
/// throws: DataError.
LATHE_API OnnxModel load_onnx(std::string_view bytes, std::string_view name);

struct OnnxOptions {
  std::string name = "model";  // of the graph in the file
  // Texts for the programs that use the file; its metadata_props.
  std::map<std::string, std::string, std::less<>> metadata = {};
};

/// Writes a graph as a file of opset 17 (IR version 8), whose tensors have their names and dtypes.
/// A size N is called "N" there. The results are "output", or "output0", "output1", …. The file is
/// replaced in one step (core/files/file.h).
/// throws: ValueError naming an op, and its layer, that has no ONNX form, and for a file above
/// protobuf's limit of 2 GiB; StateError while a tensor is not bound; FileError.
LATHE_API void save_onnx(const Graph& graph, const std::string& path,
                         const OnnxOptions& options = {});

/// Whether a file begins as save_onnx() writes it; another program's files begin differently.
/// throws: FileError.
LATHE_API bool is_saved_onnx(const std::string& path);

}  // namespace lathe::jit
