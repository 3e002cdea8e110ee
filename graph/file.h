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

/// The metadata's key under which the text stands.
inline constexpr std::string_view kGraphKey = "lathe.graph";

/// Writes the graph in one step: at any moment `path` is the complete old file or the complete new
/// one. Tensors are written row-major; constants of one element stand in the text.
///   metadata  further entries, for whom it may concern; not kGraphKey
/// throws: FileError; ValueError; StateError while a tensor is not bound.
LATHE_API void save(const Graph& graph, const std::string& path,
                    const safetensors::Metadata& metadata = {});

/// The graph of a file, on the CPU. Checked are the text, as by parse(), that each tensor is there
/// and has its type, and that what run() would compute is in proportion to the file's tensors and
/// inputs (docs/formats.md, "Graphs"). Nothing of it is executed before run().
/// throws: FileError if the file cannot be read; DataError that names the file and what is wrong.
LATHE_API Graph load(const std::string& path);

/// The same for a file's bytes; `name` stands for it in messages.
/// throws: DataError.
LATHE_API Graph load(std::span<const std::byte> bytes, std::string_view name);

}  // namespace lathe::jit
