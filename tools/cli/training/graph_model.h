// A graph of an ONNX or .lathe file as a model that trains (graph/graph_module.h), and what a
// checkpoint carries of it. model_file.h is what commands use.
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

/// The parameters that train and may be constants of an ONNX file, which does not tell: they are
/// only added or multiplied, and have no name of a weight or bias. "attn_mask f32[49,49]"
std::vector<std::string> doubtful_weights(const jit::GraphModule& model);

/// What a checkpoint carries of the model beside its weights: the text of its graph in training.
std::string graph_text(const jit::GraphModule& model);

/// True if the text that a checkpoint carries is that of a graph.
bool is_graph_text(std::string_view carried);

/// The model of graph_text() and of a checkpoint's weights, which are copied.
///   file  the checkpoint, for messages
/// throws: DataError for a damaged text, or weights that are missing or of other types;
/// CommandError (kData) as open_graph_model().
std::unique_ptr<jit::GraphModule> carried_graph_model(const std::string& text,
                                                      const StateDict& weights,
                                                      std::optional<int64_t> classes,
                                                      const std::string& file);

}  // namespace lathe::cli
