// Quantisation after training: the layers, what is seen of their inputs, and the report. Contract:
// quantize.h.
#include "lathe/graph/quantize/quantize.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <set>
#include <utility>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/error.h"
#include "lathe/core/format.h"
#include "lathe/graph/op_table.h"
#include "lathe/graph/passes.h"
#include "lathe/graph/quantize/quantize_rewrite.h"
#include "lathe/graph/quantize/value_range.h"
#include "lathe/ops/quantized.h"
#include "lathe/ops/unary.h"

namespace lathe::jit {

namespace {

/// The sums of a ratio of signal to noise.
struct Sqnr {
  double signal = 0, noise = 0;

  /// Both in f32, or any other floating type.
  void add(const Tensor& y, const Tensor& exact) {
    const std::vector<double> a = y.to_vector<double>(), b = exact.to_vector<double>();
    for (size_t i = 0; i < a.size(); ++i) {
      signal += b[i] * b[i];
      noise += (a[i] - b[i]) * (a[i] - b[i]);
    }
  }
  double db() const { return noise == 0 ? HUGE_VAL : 10 * std::log10(signal / noise); }
};

std::string name_of_layer(const Graph& graph, const Node& node) {
  return node.place.empty() ? graph.values[static_cast<size_t>(node.output)].name : node.place;
}

class Quantizer {
 public:
  Quantizer(const Graph& graph, const std::vector<Tensors>& calibration,
            const QuantizeOptions& options)
      : graph_(graph), calibration_(calibration), options_(options) {
    optimize_for_inference(graph_);
    find_layers();
  }

  QuantizationReport run(Graph& result) {
    if (layers_.empty()) {
      result = std::move(graph_);
      return {};
    }
    observe();
    Rewritten made = rewritten();
    QuantizationReport report = measured(made);
    if (options_.least_sqnr > 0 && unmark_worst(report)) {
      made = rewritten();
      report = measured(made);
    }
    remove_dead_code(made.graph);
    result = std::move(made.graph);
    return report;
  }

 private:
  const Node& node(size_t layer) const { return graph_.nodes[layers_[layer]]; }
  const Value& value(int number) const { return graph_.values[static_cast<size_t>(number)]; }

  void find_layers() {
    marked_.resize(graph_.nodes.size());
    for (size_t n = 0; n < graph_.nodes.size(); ++n) {
      if (is_layer(graph_, graph_.nodes[n])) layers_.push_back(n);
    }
    std::set<std::string> kept(options_.keep.begin(), options_.keep.end());
    std::set<std::string> unknown = kept;
    for (size_t i = 0; i < layers_.size(); ++i) {
      const std::string name = name_of_layer(graph_, node(i));
      unknown.erase(name);
      const bool at_end =
          (i == 0 && !options_.first) || (i + 1 == layers_.size() && !options_.last);
      marked_[layers_[i]] = !at_end && !kept.contains(name);
    }
    if (unknown.empty()) return;
    std::string names;
    for (size_t i = 0; i < layers_.size(); ++i)
      names += (i == 0 ? "" : ", ") + name_of_layer(graph_, node(i));
    LATHE_FAIL(ValueError, "quantize: no convolution or linear layer has the name ",
               *unknown.begin(), "; the layers are ", names);
  }

  /// What is read of each layer: its input, its residual and its result; and what becomes integers.
  std::vector<int> observed() const {
    std::vector<bool> wanted = wanted_integers(graph_, marked_);
    for (const size_t n : layers_) {
      const Node& layer = graph_.nodes[n];
      wanted[static_cast<size_t>(layer.inputs[0])] = true;
      wanted[static_cast<size_t>(layer.output)] = true;
    }
    std::vector<int> numbers;
    for (size_t v = 0; v < wanted.size(); ++v) {
      if (wanted[v]) numbers.push_back(static_cast<int>(v));
    }
    return numbers;
  }

  /// The graph with other outputs.
  static Graph showing(const Graph& graph, const std::vector<int>& outputs) {
    Graph other = graph;
    other.outputs = outputs;
    return other;
  }

  std::string described(int number) const {
    for (const Node& each : graph_.nodes) {
      if (each.output == number && !each.place.empty())
        return concat("%", value(number).name, ", the result of ", each.op->name, " of ",
                      each.place, ",");
    }
    return concat("%", value(number).name);
  }

  void observe() {
    const std::vector<int> numbers = observed();
    const Graph probe = showing(graph_, numbers);
    ranges_.resize(graph_.values.size());
    for (const Tensors& batch : calibration_) {
      const Tensors seen = probe.run(batch);
      for (size_t i = 0; i < seen.size(); ++i)
        ranges_[static_cast<size_t>(numbers[i])].widen(seen[i].detach(), described(numbers[i]));
    }
    const bool any = std::any_of(ranges_.begin(), ranges_.end(),
                                 [](const ValueRange& range) { return !range.is_empty(); });
    LATHE_CHECK(ValueError, any, "quantize: there are no calibration data (", calibration_.size(),
                " batches)");
    for (const Tensors& batch : calibration_) {
      if (options_.range == RangeRule::kMinMax) break;
      const Tensors seen = probe.run(batch);
      for (size_t i = 0; i < seen.size(); ++i)
        ranges_[static_cast<size_t>(numbers[i])].count(seen[i].detach());
    }
    quanta_.resize(graph_.values.size());
    for (const int number : numbers) {
      const ValueRange& range = ranges_[static_cast<size_t>(number)];
      quanta_[static_cast<size_t>(number)] = {range.scale(options_), range.dtype()};
    }
  }

  Rewritten rewritten() const { return rewrite(graph_, marked_, quanta_); }

  /// A value of the new graph as f32, whichever form it has there.
  static Tensor as_f32(const Tensor& t, double scale) {
    return t.dtype() == kU8 || t.dtype() == kI8 ? dequantize(t, scale) : t;
  }

  /// A quantised layer's result from inputs that are those of the graph in f32.
  Tensor alone(const Graph& made, const Node& layer, const Tensor& x,
               const Tensor& residual) const {
    const auto type = [&](int input) { return made.values[static_cast<size_t>(input)].type.dtype; };
    const auto tensor = [&](int input) {
      return input < 0 ? Tensor() : made.values[static_cast<size_t>(input)].tensor;
    };
    const auto real = [&](const char* name) { return std::get<double>(attribute_of(layer, name)); };
    Tensors in = {quantize(x, real("x_scale"), type(layer.inputs[0])), tensor(layer.inputs[1]),
                  tensor(layer.inputs[2]), tensor(layer.inputs[3]), Tensor()};
    if (residual.defined())
      in[4] = quantize(residual, real("residual_scale"), type(layer.inputs[4]));
    return as_f32(layer.op->call(in, layer.attributes), real("y_scale"));
  }

  /// The report on the first batch that is not empty.
  QuantizationReport measured(const Rewritten& made) const {
    size_t first = 0;
    while (first + 1 < calibration_.size() && calibration_[first][0].numel() == 0) ++first;
    std::vector<int> old_outputs = graph_.outputs, new_outputs = made.graph.outputs;
    const size_t count = old_outputs.size();
    for (const size_t n : layers_) {
      const Node& layer = graph_.nodes[n];
      const int residual = layer.op->name == "fused_conv2d" ? layer.inputs[3] : -1;
      const int result = made.results[n];
      for (const int v : {layer.inputs[0], result, residual < 0 ? result : residual})
        old_outputs.push_back(v);
      new_outputs.push_back(made.values[static_cast<size_t>(result)]);
    }
    const Tensors exact = showing(graph_, old_outputs).run(calibration_[first]);
    const Tensors got = showing(made.graph, new_outputs).run(calibration_[first]);

    QuantizationReport report;
    for (size_t i = 0; i < count; ++i) {
      Sqnr sqnr;
      sqnr.add(got[i], exact[i]);
      report.outputs_db.push_back(sqnr.db());
    }
    for (size_t i = 0; i < layers_.size(); ++i) {
      const Node& old = node(i);
      const ValueRange& range = ranges_[static_cast<size_t>(old.inputs[0])];
      QuantizedLayer layer{.name = name_of_layer(graph_, old),
                           .op = old.op->name,
                           .quantized = marked_[layers_[i]],
                           .low = range.low(),
                           .high = range.high()};
      const Tensor &x = exact[count + 3 * i], &y = exact[count + 3 * i + 1];
      const bool has_residual = old.op->name == "fused_conv2d" && old.inputs[3] >= 0;
      Sqnr own, whole;
      whole.add(as_f32(got[count + i], made.scales[static_cast<size_t>(made.results[layers_[i]])]),
                y);
      if (layer.quantized) {
        const Node& now = made.graph.nodes[static_cast<size_t>(made.nodes[layers_[i]])];
        layer.scale = std::get<double>(attribute_of(now, "x_scale"));
        layer.dtype = made.graph.values[static_cast<size_t>(now.inputs[0])].type.dtype;
        Tensor result =
            alone(made.graph, now, x, has_residual ? exact[count + 3 * i + 2] : Tensor());
        if (is_gelu(old)) {  // which is a node of its own
          const bool by_tanh = std::get<std::string>(attribute_of(old, "activation")) != "gelu";
          result = gelu(result, {.tanh_approximation = by_tanh});
        }
        own.add(result, y);
      }
      layer.own_db = own.db();
      layer.sqnr_db = whole.db();
      report.layers.push_back(std::move(layer));
    }
    return report;
  }

  static bool is_gelu(const Node& layer) {
    return layer.op->name == "linear" && !layer.attributes.empty() &&
           std::get<std::string>(attribute_of(layer, "activation")).starts_with("gelu");
  }

  /// Takes the layers out whose own error is too large. False if there are none.
  bool unmark_worst(const QuantizationReport& report) {
    bool any = false;
    for (size_t i = 0; i < layers_.size(); ++i) {
      if (!marked_[layers_[i]] || report.layers[i].own_db >= options_.least_sqnr) continue;
      marked_[layers_[i]] = false;
      any = true;
    }
    return any;
  }

  Graph graph_;  // in f32, optimised
  const std::vector<Tensors>& calibration_;
  const QuantizeOptions& options_;
  std::vector<size_t> layers_;  // their nodes
  std::vector<bool> marked_;    // of nodes: to be quantised
  std::vector<ValueRange> ranges_;
  std::vector<Quantum> quanta_;
};

std::string fixed(const char* format, double value) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), format, value);
  return text.data();
}

std::string padded(std::string text, size_t width) {
  text.resize(std::max(width, text.size()), ' ');
  return text;
}

}  // namespace

QuantizationReport quantize(Graph& graph, const std::vector<Tensors>& calibration,
                            const QuantizeOptions& options) {
  LATHE_CHECK(ValueError, options.percentile > 0 && options.percentile <= 100,
              "quantize: percentile must be above 0 and at most 100, got ", options.percentile);
  LATHE_CHECK(ValueError, !calibration.empty(), "quantize: there are no calibration data");
  const NoGrad off;
  Graph result;
  QuantizationReport report = Quantizer(graph, calibration, options).run(result);
  graph = std::move(result);
  return report;
}

std::string QuantizationReport::text() const {
  size_t width = 5;
  for (const QuantizedLayer& layer : layers) width = std::max(width, layer.name.size());
  std::string out =
      padded("layer", width) + "  input               scale      alone dB  in all dB\n";
  for (const QuantizedLayer& layer : layers) {
    const std::string range = concat(fixed("%.3g", layer.low), " .. ", fixed("%.3g", layer.high));
    out += padded(layer.name, width) + "  ";
    if (layer.quantized) {
      out += padded(concat(name_of(layer.dtype), " ", range), 20) +
             padded(fixed("%.3g", layer.scale), 11) + padded(fixed("%.1f", layer.own_db), 10);
    } else {
      out += padded(concat("f32 ", range), 41);
    }
    out += fixed("%.1f", layer.sqnr_db) + "\n";
  }
  for (size_t i = 0; i < outputs_db.size(); ++i)
    out += concat("output ", i, ": ", fixed("%.1f", outputs_db[i]), " dB\n");
  return out;
}

}  // namespace lathe::jit
