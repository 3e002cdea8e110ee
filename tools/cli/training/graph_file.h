// Files that hold a whole model as a graph: .lathe, and ONNX files of any program.
#pragma once

#include <cstdint>
#include <string>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/core/formats/safetensors.h"
#include "lathe/core/state_dict.h"
#include "lathe/graph/graph.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/training/model_input.h"

namespace lathe::cli {

struct GraphFile {
  jit::Graph graph;
  safetensors::Metadata about;  // how an image becomes an input, if the file says it
};

/// The metadata of a safetensors file; empty for any other file.
/// throws: FileError if the file cannot be read; DataError for a damaged file, or one that
/// tensor_file_format() does not know.
safetensors::Metadata metadata_in(const std::string& path);

/// True for a file whose name ends with .onnx, and for a file that jit::save() wrote.
/// throws: what metadata_in() throws.
bool is_graph_file(const std::string& path);

/// Reads the graph of a file for which is_graph_file() is true.
/// throws: CommandError (kData); DataError.
GraphFile read_graph_file(const std::string& path);

/// The graph's parameters and buffers as a model's state dict. Constants that an export added are
/// left out. Each running_mean gets a num_batches_tracked of 0 beside it, because graphs have no
/// such entries.
StateDict weights_of(const jit::Graph& graph);

/// Calls `f`, which runs or rewrites the graph of `file`. An error of its ops becomes CommandError
/// (kData) that names the file; errors of memory, devices and files stay as they are.
template <class F>
decltype(auto) running_graph(const std::string& file, F&& f) {
  try {
    return std::forward<F>(f)();
  } catch (const Error& e) {
    const bool is_other = dynamic_cast<const OutOfMemoryError*>(&e) != nullptr ||
                          dynamic_cast<const DeviceError*>(&e) != nullptr ||
                          dynamic_cast<const CudaError*>(&e) != nullptr ||
                          dynamic_cast<const FileError*>(&e) != nullptr;
    if (is_other) throw;
    throw CommandError(ExitCode::kData, concat(file, ": ", e.message()));
  }
}

/// Returns how images are prepared, as the file says (model_input_in). Files of other programs do
/// not say it. For such a file it returns usual_input(), if the graph maps [N,3,S,S] to
/// [N,classes].
/// throws: CommandError (kData) naming the file, if the file does not say it and its graph has
/// inputs or results of other shapes.
ModelInput model_input_of(const GraphFile& file, const std::string& path);

/// True if the results of a classifier are probabilities already, so that they need no softmax.
/// Results are probabilities if the last op is a softmax over the classes, a sigmoid, or the exp of
/// a log_softmax. Further ops behind the last op that only change shape or dtype do not matter.
/// Results of any other op count as logits. (The softmax of a log_softmax equals that of its
/// logits.)
bool gives_probabilities(const jit::Graph& graph);

/// The only batch size that the graph's first input takes, or 0 if it takes any.
int64_t batch_of(const jit::Graph& graph);

}  // namespace lathe::cli
