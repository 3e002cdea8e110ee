// Graph files: one safetensors file with the graph's tensors, and its text as metadata. The format
// is described in docs/formats.md, "Graphs".
//   jit::save(graph, "resnet18.lathe");
//   const jit::Graph graph = jit::load("resnet18.lathe");
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "lathe/core/formats/safetensors.h"
#include "lathe/graph/graph.h"

namespace lathe::jit {

/// The key of the graph's text in the metadata.
inline constexpr std::string_view kGraphKey = "lathe.graph";

/// Writes the graph to a file. At any moment `path` is the complete old file or the complete new
/// one. Tensors are written row-major. Constants of one element are numbers in the graph's text.
///   metadata  further entries of the file's metadata; kGraphKey is not allowed
/// throws: FileError; StateError while a tensor is not bound; ValueError if `metadata` has
/// kGraphKey, or if the graph writes into tensors or draws random numbers.
LATHE_API void save(const Graph& graph, const std::string& path,
                    const safetensors::Metadata& metadata = {});

/// Reads a graph from a file, onto the CPU. Checks the text as parse() does, and that each tensor
/// is there and has its type. Also checks that the work of run() is in proportion to the file's
/// tensors and inputs (docs/formats.md, "Graphs"). No op runs before run().
/// throws: FileError if the file cannot be read; DataError that names the file and what is wrong,
/// also if the graph writes into tensors or draws random numbers.
LATHE_API Graph load(const std::string& path);

/// Like load(path), for the bytes of a file; `name` stands for the file in messages.
/// throws: DataError.
LATHE_API Graph load(std::span<const std::byte> bytes, std::string_view name);

}  // namespace lathe::jit
