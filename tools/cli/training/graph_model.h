// A graph of an ONNX or .lathe file as a model that trains (graph/graph_module.h), and as a text in
// a checkpoint. Commands use model_file.h.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/state_dict.h"
#include "lathe/graph/graph_module.h"

namespace lathe::cli {

/// The model of a file, on the CPU, in training.
///   classes  of a new last layer (jit::replace_head()), if it is to have one
/// throws: CommandError (kData) for weights that are not f32, or a last layer that cannot be
/// replaced; FileError; DataError.
std::unique_ptr<jit::GraphModule> open_graph_model(const std::string& file,
                                                   std::optional<int64_t> classes);

/// The trained parameters that may be constants in truth, because an ONNX file does not distinguish
/// the two: they are only added or multiplied, and their names do not end in .weight or .bias. Each
/// as "attn_mask f32[49,49]".
std::vector<std::string> doubtful_weights(const jit::GraphModule& model);

/// The text of the model's graph in training mode. A checkpoint carries it beside the weights.
std::string graph_text(const jit::GraphModule& model);

/// True if the text that a checkpoint carries is that of a graph.
bool is_graph_text(std::string_view carried);

/// Makes the model from `text`, which graph_text() returned, and from a checkpoint's weights, which
/// are copied.
///   file  the checkpoint, for messages
/// throws: DataError for a damaged text, or weights that are missing or of other types;
/// CommandError (kData) as open_graph_model().
std::unique_ptr<jit::GraphModule> carried_graph_model(const std::string& text,
                                                      const StateDict& weights,
                                                      std::optional<int64_t> classes,
                                                      const std::string& file);

}  // namespace lathe::cli
