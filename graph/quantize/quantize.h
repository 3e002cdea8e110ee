// Quantisation after training: makes the convolutions and linear layers of an f32 graph compute in
// 8-bit integers (ops/quantized.h). quantize.cpp: layers, calibration, the report;
// quantize_rewrite.cpp: the new graph; value_range.cpp: scales from the calibration data.
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

/// How quantize() chooses the range of a tensor from the calibration data. Values outside the range
/// are clipped.
enum class RangeRule : uint8_t {
  kLeastSquares,  // the range with the least sum of squared rounding and clipping errors
  kPercentile,    // QuantizeOptions::percentile per cent of the elements are in the range
  kMinMax,        // the range reaches the largest magnitude
};

struct QuantizeOptions {
  RangeRule range = RangeRule::kLeastSquares;
  double percentile = 99.99;           // above 0, at most 100
  bool first = true;                   // false: the first layer stays in f32
  bool last = true;                    // false: the last layer stays in f32
  std::vector<std::string> keep = {};  // names of layers that stay in f32, as in the report
  double least_sqnr = 0;               // dB; a layer with a smaller own_db stays in f32
};

/// What quantize() reports of one convolution or linear layer. Errors are signal-to-noise ratios in
/// decibels, 10 * log10(sum of y^2 / sum of (y - y in f32)^2), over the first batch.
struct QuantizedLayer {
  std::string name;  // the layer in the model that was traced; else the result's name
  std::string op;
  bool quantized = false;
  float low = 0, high = 0;  // of the input, over the calibration data
  DType dtype = DType::kF32;
  double scale = 0;    // of the input
  double own_db = 0;   // of the result, if only this layer is quantised
  double sqnr_db = 0;  // of the result, if this layer and all before it are quantised
};

struct LATHE_API QuantizationReport {
  std::vector<QuantizedLayer> layers;  // in the order in which they run
  std::vector<double> outputs_db;      // of the graph's results
  /// The report as a table.
  std::string text() const;
};

/// Runs optimize_for_inference(), then the f32 graph on the calibration data, and replaces
/// convolutions and linear layers by quantised ones.
///   calibration  the graph's inputs for each batch: together a few hundred images like those that
///                the graph will get
/// Only layers whose filters are bound f32 tensors on the CPU are replaced.
///   - Filters become i8 with one scale for each output channel; the range reaches the channel's
///     largest magnitude.
///   - Other tensors have one scale. They are u8 if the calibration data showed no value below 0,
///     else i8.
///   - The quantised layer itself computes sums, bias, relu and residual.
///   - Between two quantised layers values stay integers, also if a max_pool2d or a change of shape
///     lies between. A relu6, or a clamp from 0 to h, becomes part of the layer before it.
///   - All other ops read f32.
/// If it throws, the graph is unchanged.
/// throws: ValueError without data, for NaN or infinity in the data or in a filter, for a name in
/// `keep` that no layer has, and for a percentile outside of (0,100]; what Graph::run() throws.
/// ref: Jacob et al. 2018 (arXiv:1712.05877); Nagel et al. 2021, "A White Paper on Neural Network
/// Quantization" (arXiv:2106.08295), which finds ranges of least squared error best; Wu et al. 2020
/// (arXiv:2004.09602) for percentiles.
LATHE_API QuantizationReport quantize(Graph& graph, const std::vector<Tensors>& calibration,
                                      const QuantizeOptions& options = {});

}  // namespace lathe::jit
