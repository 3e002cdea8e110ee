// Graphs in files, and what is known of their images.
#include "lathe/tools/cli/training/graph_file.h"

#include <map>
#include <string_view>
#include <utility>

#include "lathe/core/formats/safetensors_header.h"
#include "lathe/core/formats/tensor_file.h"
#include "lathe/graph/file.h"
#include "lathe/graph/onnx.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/formatted.h"
#include "lathe/tools/cli/training/reading_data.h"

namespace lathe::cli {

bool is_graph_file(const std::string& path) {
  if (path.ends_with(".onnx")) return true;
  return tensor_file_format(path) == TensorFileFormat::kSafetensors &&
         safetensors::read_metadata(path).contains(jit::kGraphKey);
}

GraphFile read_graph_file(const std::string& path) {
  return reading_data([&] {
    GraphFile file;
    if (path.ends_with(".onnx")) {
      jit::OnnxModel model = jit::load_onnx(path);
      file = {std::move(model.graph), std::move(model.metadata)};
    } else {
      file = {jit::load(path), safetensors::read_metadata(path)};
    }
    std::erase_if(file.about, [](const auto& entry) {  // of the file itself
      return entry.first == jit::kGraphKey || entry.first == safetensors::kChecksumKey;
    });
    return file;
  });
}

StateDict weights_of(const jit::Graph& graph) {
  constexpr std::string_view kMean = "running_mean";
  StateDict weights, counts;
  for (const jit::Value& value : graph.values) {
    const bool is_weight =
        value.origin == jit::Origin::kParameter || value.origin == jit::Origin::kBuffer;
    if (!is_weight || !value.tensor.defined() || value.name.starts_with("const/")) continue;
    weights.add(value.name, value.tensor);
    if (value.name.ends_with(kMean)) {
      const std::string layer = value.name.substr(0, value.name.size() - kMean.size());
      counts.add_number(layer + "num_batches_tracked", int64_t{0});
    }
  }
  for (const auto& [name, count] : counts) {
    if (!weights.contains(name)) weights.add(name, count);
  }
  return weights;
}

ModelInput model_input_of(const GraphFile& file, const std::string& path) {
  if (!input_entries(file.about).empty()) return model_input_in(file.about, path);
  const jit::Graph& graph = file.graph;
  const auto shape = [&](const std::vector<int>& of) {
    return of.size() == 1 ? graph.values[static_cast<size_t>(of[0])].type.shape
                          : std::vector<jit::Size>();
  };
  const std::vector<jit::Size> x = shape(graph.inputs), y = shape(graph.outputs);
  const auto fixed = [](const jit::Size& size) { return size.of_batch == 0 && size.fixed > 0; };
  const bool is_classifier = x.size() == 4 && x[1] == jit::Size{0, 3} && x[2] == x[3] &&
                             fixed(x[2]) && y.size() == 2 && y[0] == x[0] && fixed(y[1]);
  if (!is_classifier) {
    throw CommandError(ExitCode::kData,
                       formatted("{}: it does not say how an image becomes its input, and is no "
                                 "model from [N,3,S,S] to [N,classes]",
                                 path));
  }
  constexpr int64_t kMostClasses = 1'000'000;  // the numbers are only types in the file
  constexpr int64_t kMostPixels = 65536;       // of a side, as in other files
  if (x[2].fixed > kMostPixels) {
    throw CommandError(ExitCode::kData, formatted("{}: images of {} pixels a side are above {}",
                                                  path, x[2].fixed, kMostPixels));
  }
  if (y[1].fixed > kMostClasses) {
    throw CommandError(ExitCode::kData, formatted("{}: {} classes are more than {}", path,
                                                  y[1].fixed, kMostClasses));
  }
  return usual_input(y[1].fixed, x[2].fixed);
}

}  // namespace lathe::cli
