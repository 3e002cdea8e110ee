// Quantisation after training: a graph in f32 becomes one whose convolutions and linear layers
// compute in 8-bit integers (ops/quantized.h). quantize.cpp: layers, calibration, the report;
// quantize_rewrite.cpp: the new graph; value_range.cpp: from what was seen to scales.
//   jit::Graph graph = jit::trace(*model, example);
//   const jit::QuantizationReport report = jit::quantize(graph, {{images}, {more_images}});
//   std::cout << report.text();
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "lathe/core/tensor.h"
#include "lathe/graph/graph.h"

namespace lathe::jit {

/// How far a tensor's integers reach, from what was seen of it. What lies beyond is cut.
enum class RangeRule : uint8_t {
  kLeastSquares,  // where the squared errors of rounding and of cutting add up to least
  kPercentile,    // so far that QuantizeOptions::percentile of the elements are inside
  kMinMax,        // to the largest element
};

struct QuantizeOptions {
  RangeRule range = RangeRule::kLeastSquares;
  double percentile = 99.99;           // above 0, at most 100
  bool first = true;                   // false: the first layer stays in f32
  bool last = true;                    // false: the last layer stays in f32
  std::vector<std::string> keep = {};  // names of layers that stay in f32, as in the report
  double least_sqnr = 0;               // dB; a layer that is worse by itself stays in f32
};

/// A convolution or linear layer, and what became of it. Errors are signal-to-noise ratios in
/// decibels, 10 * log10(sum of y^2 / sum of (y - y in f32)^2), over the first batch.
struct QuantizedLayer {
  std::string name;  // the layer in the model that was traced; else the result's name
  std::string op;
  bool quantized = false;
  float low = 0, high = 0;  // of the input, over the calibration data
  DType dtype = DType::kF32;
  double scale = 0;    // of the input
  double own_db = 0;   // of the result, where the inputs are those of the graph in f32
  double sqnr_db = 0;  // of the result, where all layers before are quantised, too
};

struct QuantizationReport {
  std::vector<QuantizedLayer> layers;  // in the order in which they run
  std::vector<double> outputs_db;      // of the graph's results
  /// A table of them.
  std::string text() const;
};

/// Runs optimize_for_inference(), then the graph in f32 on the batches, and makes its convolutions
/// and linear layers quantised ones.
///   calibration  the graph's inputs, once for each batch: a few hundred images like those to come
/// Filters are of i8 with one scale for each output channel, up to the largest element. Other
/// tensors have one scale: u8 if nothing below 0 was seen, else i8. Sums, biases, relu and residual
/// stay inside of the layer. Between two such layers nothing is turned back into f32, also where
/// max_pool2d or a change of shape lies between. A relu6, or a clamp from 0 on, is where integers
/// end. All that other ops read is in f32.
/// The filters must be bound tensors in f32 on the CPU; other layers stay as they are. The graph is
/// unchanged if it throws.
/// throws: ValueError without data, for NaN or infinity in it or in a filter, for a name in `keep`
/// that no layer has, and for a percentile outside of (0,100]; what Graph::run() throws.
/// ref: Jacob et al. 2018 (arXiv:1712.05877); Nagel et al. 2021, "A White Paper on Neural Network
/// Quantization" (arXiv:2106.08295), which finds ranges of least squared error best; Wu et al. 2020
/// (arXiv:2004.09602) for percentiles.
LATHE_API QuantizationReport quantize(Graph& graph, const std::vector<Tensors>& calibration,
                                      const QuantizeOptions& options = {});

}  // namespace lathe::jit
