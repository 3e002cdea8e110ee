// lathe bench conv: the convolutions of a model, layer by layer and pass by pass, next to the least
// time that the device needs for them; also the engine that the search chose, on a GPU and with
// --conv-benchmark on a CPU (ops/conv_search/conv_search.h).
#include <unistd.h>

#include <functional>
#include <string>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/file.h"
#include "lathe/core/generator.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/conv/conv2d_engines_cpu.h"
#include "lathe/ops/conv_search/conv_search.h"
#include "lathe/ops/conv_search/conv_ways.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/tools/cli/commands/bench.h"
#include "lathe/tools/cli/commands/conv_layers.h"
#include "lathe/tools/cli/commands/roofline.h"
#include "lathe/tools/cli/count_text.h"
#include "lathe/tools/cli/formatted.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/replaceable.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/wrapping.h"

namespace lathe::cli {
namespace {

// Of most engines of a GPU with their knobs, and of the ways of a CPU.
constexpr size_t kEngineWidth = 48, kWayWidth = 15;

/// What is the same for all layers: device, settings, peaks.
struct ConvBench {
  const Output& out;
  const Settings& settings;
  Device device;
  DType dtype;
  TimingOptions timing;
  Roofline roofline;
  Table& table;
  bool searches;  // for an engine
};

/// The engine of the one convolution that ran since the search was cleared; "" if the search had no
/// part in it.
std::string engine_of_last() {
  const auto choices = conv_search().choices();
  if (choices.empty()) return "";
  const auto& [key, choice] = choices.front();
  return engine_text(key, choice->candidate().engine);
}

struct Total {
  double seconds = 0, least_seconds = 0, operations = 0;
  std::vector<RooflineDot> dots = {};
};

void time_pass(const ConvBench& bench, const ConvLayer& layer, const char* pass, Total& total,
               const std::function<void()>& f) {
  const Conv2dGeometry& g = layer.sizes;
  conv_search().clear();  // afterwards it knows this pass alone, or nothing
  const Timing timing = measure(f, bench.timing);
  const std::string engine = engine_of_last();
  const double operations = conv_operations(g), least = bench.roofline.seconds(g, bench.dtype);
  const auto count = static_cast<double>(layer.count);
  total.seconds += count * timing.median;
  total.least_seconds += count * least;
  total.operations += count * operations;
  total.dots.push_back({pass, operations, conv_bytes(g, bench.dtype), timing.median});
  Row row;
  row.add("bench", "conv")
      .add("layer", layer.name)
      .add("count", layer.count)
      .add("pass", pass)
      .add("x", concat(g.x_shape()))
      .add("w", concat(g.w_shape()))
      .add("stride", concat(g.stride))
      .add("pad", concat(g.pad))
      .add("dtype", concat(bench.dtype))
      .add("layout", bench.settings.layout)
      .add("device", concat(bench.device))
      .add("threads", num_threads())
      .add("engine", engine)
      .add("roofline_seconds", least)
      .add("of_roofline", least / timing.median);
  bench.out.row(add_timing(row, timing, "operations", operations));
  std::vector<std::string> cells = conv_cells(layer.name, layer.count, pass, timing.median,
                                              operations / timing.median, least / timing.median);
  if (bench.searches) cells.push_back(engine);
  bench.out.text(bench.table.row(cells));
}

void time_layer(const ConvBench& bench, const ConvLayer& layer, Total& total) {
  const Conv2dGeometry& g = layer.sizes;
  const auto random = [&](const Shape& shape) {
    const Tensor t = randn(shape, {.device = bench.device}).to(bench.dtype);
    return in_layout(t, bench.settings);
  };
  const Tensor x = random(g.x_shape()), dy = random(g.y_shape());
  const MemoryFormat format = filter_format(bench.device, bench.settings);
  const Tensor w = randn(g.w_shape(), {.device = bench.device}).to(bench.dtype).contiguous(format);
  const Conv2dOptions options{
      .stride = g.stride, .pad = g.pad, .dilation = g.dilation, .groups = g.groups};
  time_pass(bench, layer, "forward", total, [&] { conv2d(x, w, options); });
  if (!layer.first) {
    time_pass(bench, layer, "backward_input", total,
              [&] { conv2d_input_grad(dy, w, x.shape(), options); });
  }
  time_pass(bench, layer, "backward_weight", total,
            [&] { conv2d_weight_grad(dy, x, w.shape(), options, format); });
}

}  // namespace

ExitCode run_bench_conv(const Invocation& call) {
  Settings settings = call.settings;
  const Output out(settings.json);
  check_picture(settings.svg);
  const Device device = prepare_compute(settings);
  if (!settings.model) settings.model = "resnet18";
  const int64_t batch = settings.batch_size.value_or(128), side = settings.image_size.value_or(32);
  manual_seed(static_cast<uint64_t>(settings.seed));
  const auto model =
      make_model(settings, {.classes = settings.classes, .in_channels = settings.in_channels});
  const auto layers = conv_layers(*model, {batch, settings.in_channels, side, side});
  const NoGrad no_grad;
  const DType dtype = dtype_from_name(settings.dtype);
  const TimingOptions timing =
      lasting(settings.seconds,
              {.warm_up_seconds = 0.1, .window_seconds = 0.05, .windows = 5, .device = device});
  const bool searches = device.is_cuda() || cpu::conv2d_is_measured(dtype);
  std::vector<Column> more;
  if (searches)
    more.push_back({.heading = "engine",
                    .width = device.is_cuda() ? kEngineWidth : kWayWidth,
                    .right = false,
                    .rank = 1});
  Table table = conv_table(layers, more, terminal_width(STDOUT_FILENO));
  const ConvBench bench{out,   settings, device,
                        dtype, timing,   measure_roofline(settings, dtype, timing),
                        table, searches};
  const Roofline& peaks = bench.roofline;
  out.text(formatted("{} batch {} {} {} on {}, {}; roofline {:.1f} GFLOP/s, {:.1f} GB/s",
                     *settings.model, batch, settings.dtype, settings.layout, concat(device),
                     count_text(num_threads(), "thread"), peaks.operations_per_second / 1e9,
                     peaks.bytes_per_second / 1e9));
  out.text(table.heading());
  Total total;
  for (const ConvLayer& layer : layers) time_layer(bench, layer, total);
  out.row(Row()
              .add("bench", "conv")
              .add("layer", "all")
              .add("seconds", total.seconds)
              .add("operations_per_second", total.operations / total.seconds)
              .add("roofline_operations_per_second", peaks.operations_per_second)
              .add("roofline_bytes_per_second", peaks.bytes_per_second)
              .add("of_roofline", total.least_seconds / total.seconds));
  std::vector<std::string> sums{formatted("{:.3f}", 1e3 * total.seconds),
                                formatted("{:.1f}", total.operations / total.seconds / 1e9),
                                formatted("{:.1f} %", 100 * total.least_seconds / total.seconds)};
  if (searches) sums.emplace_back();
  out.text(table.sum("all layers of a step", sums));
  if (const std::string remark = table.remark(); !remark.empty()) out.sentence(remark);
  if (!settings.svg.empty()) {
    const std::string title =
        formatted("{} on {}: convolutions and the roofline", *settings.model, concat(device));
    write_file_atomic(settings.svg, roofline_svg(title, peaks, total.dots));
    out.text(written_text(settings.svg));
  }
  return ExitCode::kDone;
}

}  // namespace lathe::cli
