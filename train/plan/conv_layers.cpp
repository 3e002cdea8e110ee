// conv_layers(): hooks on a model's convolutions collect their sizes; then the roofline's formulas.
#include "lathe/train/plan/conv_layers.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "lathe/autograd/grad_mode.h"
#include "lathe/nn/conv.h"
#include "lathe/ops/conv2d.h"
#include "lathe/ops/creation.h"
#include "lathe/train/report/line_chart.h"

namespace lathe::plan {
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

double Roofline::seconds(const Conv2dGeometry& sizes, DType dtype) const {
  return std::max(conv_operations(sizes) / operations_per_second,
                  conv_bytes(sizes, dtype) / bytes_per_second);
}

std::string roofline_svg(const std::string& title, const Roofline& roof,
                         const std::vector<RooflineDot>& dots) {
  const double ridge = roof.operations_per_second / roof.bytes_per_second;
  double low = ridge / 4, high = ridge * 4;  // operations per byte
  std::vector<report::ChartLine> lines(1);
  for (const RooflineDot& dot : dots) {
    const double intensity = dot.operations / dot.bytes;
    low = std::min(low, intensity / 2);
    high = std::max(high, intensity * 2);
    auto line = std::ranges::find(lines, dot.pass, &report::ChartLine::name);
    if (line == lines.end())
      line = lines.insert(line, {.name = dot.pass, .points = {}, .faint = false, .dots = true});
    line->points.push_back({intensity, dot.operations / dot.seconds / 1e9});
  }
  for (size_t i = 1; i < lines.size(); ++i)
    std::ranges::sort(lines[i].points, {}, &report::ChartPoint::x);
  const auto gflops = [&](double intensity) {
    return std::min(roof.operations_per_second, roof.bytes_per_second * intensity) / 1e9;
  };
  double slowest = gflops(low), fastest = gflops(high);
  for (const report::ChartLine& line : lines) {
    for (const report::ChartPoint& dot : line.points) {
      slowest = std::min(slowest, dot.y);
      fastest = std::max(fastest, dot.y);
    }
  }
  lines[0] = {.name = "roofline",
              .points = {{low, gflops(low)}, {ridge, gflops(ridge)}, {high, gflops(high)}}};
  return report::svg_of(
      {.title = title,
       .x = {.label = "operations per byte", .logarithmic = true},
       .y = {.label = "GFLOP/s", .logarithmic = true, .low = slowest / 1.5, .high = fastest * 1.5},
       .lines = std::move(lines)});
}

}  // namespace lathe::plan
