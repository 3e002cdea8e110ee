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

/// Reads a graph from an ONNX file of opset 7 or later, onto the CPU. Loading runs no op. Each
/// operator becomes nodes of a Graph, and the nodes' types are computed from the types of the
/// inputs.
///   - If the first size of an input is a name instead of a number ("batch"), it becomes the batch
///     size N, the same for all such inputs.
///   - Values that depend only on shapes become arguments of ops.
///   - Nodes that no output needs are left out.
///   - Weights are parameters with the file's names; characters that a name cannot have become "_".
/// The work of run() is bounded by the file's tensors and the types of the inputs. For a batch of
/// one, the results together may have 2^28 numbers, and 2^34 steps of arithmetic are allowed.
/// Larger tensors and inputs raise these bounds (docs/formats.md, "ONNX").
/// Memory: at most 256 times the file's size plus 1 MiB; about twice its size for a file that is
/// mostly weights.
/// throws: FileError if the file cannot be read. DataError that names the file, the node, its
/// operator and the opset, or the byte, for
///   - a damaged file, or tensors in other files ("external data")
///   - an operator or attribute without a counterpart
///   - a size, other than the first, that is a name instead of a number
///   - more work than the bounds above
///   - anything else that a Graph cannot hold
LATHE_API OnnxModel load_onnx(const std::string& path);

/// Like load_onnx(path), for the bytes of a file; `name` stands for the file in messages.
/// throws: DataError.
LATHE_API OnnxModel load_onnx(std::string_view bytes, std::string_view name);

/// Reads a file like load_onnx(), and makes a model of it that can be trained (graph_module.h).
///   - Floating tensors that a convolution, product, norm, prelu or embedding takes as weight or
///     bias, directly or through views, are parameters. Tensors of more than one number that are
///     added or multiplied are parameters, too. Other floating tensors are buffers.
///   - Batch norms update running statistics as in PyTorch, with the file's momentum. Dropouts have
///     the file's ratio. Batch norms and dropouts follow train() and eval(), not the file's
///     training_mode.
/// The model is in training mode. Warns once about a file whose batch norms seem to be folded into
/// convolutions.
/// Memory: as load_onnx(), plus 2 KiB for each module that dots in the names make.
/// throws: as load_onnx(); DataError for a parameter or buffer whose name is not allowed in a
/// module.
LATHE_API GraphModule load_onnx_module(const std::string& path);
/// Like load_onnx_module() of a path, for a file's bytes; `name` stands for the file in messages.
/// throws: DataError.
LATHE_API GraphModule load_onnx_module(std::string_view bytes, std::string_view name);

/// Like load_onnx_module() of a path, but returns the graph, for changes before it becomes a model
/// (replace_head.h). Does not warn.
/// throws: as load_onnx().
LATHE_API Graph load_onnx_training_graph(const std::string& path);

/// The warning of load_onnx_module(): that batch norms seem to be folded into convolutions, and how
/// to export a model without that. "" if none seems folded.
LATHE_API std::string folded_remark(const Graph& graph);

struct OnnxOptions {
  std::string name = "model";  // of the graph in the file
  // Texts for the programs that use the file; its metadata_props.
  std::map<std::string, std::string, std::less<>> metadata = {};
};

/// Writes a graph as an ONNX file of opset 17 (IR version 8). Tensors keep their names and dtypes.
/// A batch size N in the graph becomes the dynamic dimension "N" of the file. The graph's results
/// are named "output", or "output0", "output1", … if there are several. At any moment `path` is the
/// complete old file or the complete new one.
/// throws: ValueError that names an op without an ONNX form, and its layer; ValueError for a file
/// above protobuf's limit of 2 GiB; StateError while a tensor is not bound; FileError.
LATHE_API void save_onnx(const Graph& graph, const std::string& path,
                         const OnnxOptions& options = {});

/// True if save_onnx() wrote the file. Looks at the file's beginning, which differs in files of
/// other programs.
/// throws: FileError.
LATHE_API bool is_saved_onnx(const std::string& path);

}  // namespace lathe::jit
