// conv_layers(): hooks on a model's convolutions collect their sizes; then the roofline's formulas.
#include "lathe/tools/cli/commands/conv_layers.h"

#include <algorithm>
#include <iterator>
#include <unordered_map>
#include <utility>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/text/formatted.h"
#include "lathe/nn/conv.h"
#include "lathe/ops/creation.h"

namespace lathe::cli {
namespace {

bool same_sizes(const Conv2dGeometry& a, const Conv2dGeometry& b) {
  return a.x_shape() == b.x_shape() && a.w_shape() == b.w_shape() && a.y_shape() == b.y_shape() &&
         a.stride == b.stride && a.pad == b.pad && a.dilation == b.dilation && a.groups == b.groups;
}

/// Keeps the model in evaluation mode, with a hook on each convolution, until the scope ends.
class Hooks {
 public:
  Hooks(nn::Module& model, const nn::Module::ForwardHook& hook)
      : model_(model), training_(model.is_training()) {
    model.eval();
    for (const auto& [name, module] : model.named_modules()) {
      auto* conv = dynamic_cast<nn::Conv2d*>(module);
      if (conv) hooks_.emplace_back(conv, conv->register_forward_hook(hook));
    }
  }
  ~Hooks() {
    for (const auto& [conv, number] : hooks_) conv->remove_hook(number);
    model_.train(training_);
  }
  Hooks(const Hooks&) = delete;
  Hooks& operator=(const Hooks&) = delete;

 private:
  nn::Module& model_;
  const bool training_;
  std::vector<std::pair<nn::Module*, int64_t>> hooks_;
};

}  // namespace

std::vector<ConvLayer> conv_layers(nn::Module& model, const Shape& input) {
  std::unordered_map<const nn::Module*, std::string> names;
  for (const auto& [name, module] : model.named_modules()) names.emplace(module, name);
  std::vector<ConvLayer> layers;
  const Hooks hooks(model, [&](nn::Module& module, const Tensor& x, const Tensor&) {
    const auto& conv = static_cast<const nn::Conv2d&>(module);
    const nn::Conv2dOptions& o = conv.options();
    const Shape whole{input[0], x.dim(1), x.dim(2), x.dim(3)};
    const Conv2dGeometry sizes = conv2d_geometry(
        "bench conv", whole, conv.weight.shape(),
        {.stride = o.stride, .pad = o.pad, .dilation = o.dilation, .groups = o.groups});
    const bool first = layers.empty();
    const auto known = std::find_if(layers.begin(), layers.end(), [&](const ConvLayer& layer) {
      return !layer.first && same_sizes(layer.sizes, sizes);
    });
    if (known != layers.end()) {
      ++known->count;
    } else {
      layers.push_back({names.at(&module), 1, sizes, first});
    }
    return Tensor();
  });
  const NoGrad off;
  model(zeros({1, input[1], input[2], input[3]}));
  return layers;
}

double conv_operations(const Conv2dGeometry& g) { return g.flops(); }

double conv_bytes(const Conv2dGeometry& g, DType dtype) {
  const int64_t elements = numel_of(g.x_shape()) + numel_of(g.w_shape()) + numel_of(g.y_shape());
  return static_cast<double>(elements) * static_cast<double>(size_of(dtype));
}

Table conv_table(const std::vector<ConvLayer>& layers, std::vector<Column> more, int width) {
  size_t name_width = 0;
  for (const ConvLayer& layer : layers) name_width = std::max(name_width, layer.name.size());
  std::vector<Column> columns{{.heading = "layer", .width = name_width, .right = false},
                              {.heading = "", .width = 4},
                              {.heading = "pass", .width = 15, .right = false},
                              {.heading = "ms", .width = 9},
                              {.heading = "GFLOP/s", .width = 9},
                              {.heading = "roofline", .width = 8}};
  std::ranges::move(more, std::back_inserter(columns));
  return {std::move(columns), 2, width};
}

std::vector<std::string> conv_cells(const std::string& layer, int64_t count, std::string_view pass,
                                    double seconds, double rate, double of_roofline) {
  return {layer,
          formatted("{} x", count),
          std::string(pass),
          formatted("{:.3f}", 1e3 * seconds),
          formatted("{:.1f}", rate / 1e9),
          formatted("{:.1f} %", 100 * of_roofline)};
}

double Roofline::seconds(const Conv2dGeometry& sizes, DType dtype) const {
  return std::max(conv_operations(sizes) / operations_per_second,
                  conv_bytes(sizes, dtype) / bytes_per_second);
}

}  // namespace lathe::cli
