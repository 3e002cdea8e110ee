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
#include "lathe/graph/graph_module.h"

namespace lathe::jit {

struct OnnxModel {
  Graph graph;
  std::map<std::string, std::string, std::less<>> metadata;  // the file's metadata_props
};

/// Reads a graph from an ONNX file of opset 7 or later, onto the CPU. No op runs: each operator
/// becomes nodes of a Graph, whose types are computed from the types of the inputs.
///   - A first size without a number ("batch") becomes N, the same batch for all inputs that have
///     one.
///   - Values that depend on shapes alone become arguments.
///   - Nodes that no output needs are left out.
///   - Weights are parameters with the file's names; characters that a name cannot have become "_".
/// The work of run() is bounded by the file's tensors and the types of the inputs. For a batch of
/// one the bounds are 2^28 numbers in all results together and 2^34 steps of arithmetic, and more
/// for larger tensors and inputs (docs/formats.md, "ONNX").
/// Memory: at most 256 times the file's size plus 1 MiB; about twice its size for a file that is
/// mostly weights.
/// throws: FileError if the file cannot be read. DataError that names the file, the node, its
/// operator and the opset, or the byte, for
///   - a damaged file, or tensors in other files ("external data")
///   - an operator or attribute without a counterpart
///   - a size other than the first without a number
///   - more work than the bounds above
///   - whatever else a Graph cannot hold
LATHE_API OnnxModel load_onnx(const std::string& path);

/// Like load_onnx(path), for the bytes of a file; `name` stands for the file in messages.
/// throws: DataError.
LATHE_API OnnxModel load_onnx(std::string_view bytes, std::string_view name);

/// Reads a file as load_onnx() does, as a model that trains (graph_module.h).
///   - Floating tensors that a convolution, product, norm, prelu or embedding takes as weight or
///     bias, directly or through views, are parameters. So are those that are added or multiplied,
///     unless they are one number. Other floating tensors are buffers.
///   - Batch norms have PyTorch's running statistics, with the file's momentum; dropouts the file's
///     ratio. Both follow train() and eval(), not the file's training_mode.
/// The model is in training. Warns once about a file whose batch norms seem folded.
/// Memory: as load_onnx(), plus 1 KiB for each module that the names make.
/// throws: as load_onnx(); DataError for a name that no module can have.
LATHE_API GraphModule load_onnx_module(const std::string& path);
/// Like the overload above, for a file's bytes; `name` stands for the file in messages.
/// throws: DataError.
LATHE_API GraphModule load_onnx_module(std::string_view bytes, std::string_view name);

struct OnnxOptions {
  std::string name = "model";  // of the graph in the file
  // Texts for the programs that use the file; its metadata_props.
  std::map<std::string, std::string, std::less<>> metadata = {};
};

/// Writes a graph as an ONNX file of opset 17 (IR version 8). Tensors keep their names and dtypes.
/// A symbolic size N is the dynamic dimension "N" of the file. The results are "output", or
/// "output0", "output1", …. At any moment `path` is the complete old file or the complete new one.
/// throws: ValueError that names an op without an ONNX form, and its layer; ValueError for a file
/// above protobuf's limit of 2 GiB; StateError while a tensor is not bound; FileError.
LATHE_API void save_onnx(const Graph& graph, const std::string& path,
                         const OnnxOptions& options = {});

/// True if the file begins as save_onnx() writes it; files of other programs begin differently.
/// throws: FileError.
LATHE_API bool is_saved_onnx(const std::string& path);

}  // namespace lathe::jit
