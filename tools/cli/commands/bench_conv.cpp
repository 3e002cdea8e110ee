// lathe bench conv: the convolutions of a model, layer by layer and pass by pass, next to the least
// time that the device needs for them; on a GPU also the engine that the search chose
// (ops/conv/search/conv_search.h), and in f16 what it measured of the patterns that fuse a
// convolution with a batch norm.
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <ranges>
#include <string>
#include <utility>
#include <vector>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/files/file.h"
#include "lathe/core/math_mode.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/text/count_text.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/terminal.h"
#include "lathe/core/text/wrapping.h"
#include "lathe/core/thread_pool.h"
#include "lathe/ops/batch_norm_conv2d.h"
#include "lathe/ops/conv/search/conv_search.h"
#include "lathe/ops/conv/search/cudnn_settings.h"
#include "lathe/ops/creation.h"
#include "lathe/ops/random.h"
#include "lathe/tools/cli/commands/bench.h"
#include "lathe/tools/cli/commands/conv_table.h"
#include "lathe/tools/cli/commands/roofline.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/replaceable.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/model_file.h"

namespace lathe::cli {
namespace {

constexpr size_t kEngineWidth = 48;  // of most engines with their setting

/// What is the same for all layers: device, settings, peaks.
struct ConvBench {
  const Output& out;
  const Settings& settings;
  Device device;
  DType dtype;
  TimingOptions timing;
  plan::Roofline roofline;
  TextTable& table;
  bool fuses;  // searches for patterns with a batch norm, too
  std::vector<std::vector<std::string>>& fused_rows;  // of their table, behind the other
};

/// What the search knows of a key.
using Searched = std::pair<ConvKey, std::shared_ptr<const ConvChoice>>;

std::string chosen_engine(const Searched& searched) {
  return concat(searched.second->info().engine);
}

/// Adds the engine that was chosen, how many settings the search knows, and how many it timed.
void add_search(Row& row, const Searched& searched) {
  const auto& engines = searched.second->engines;
  row.add("engine", chosen_engine(searched))
      .add("settings", std::ssize(engines))
      .add("settings_timed",
           std::ranges::count(engines, ConvOutcome::kTimed, &ConvEngineResult::outcome))
      .add("search_seconds", searched.second->search_ms / 1e3);
}

Row conv_row(const ConvBench& bench, const plan::ConvLayer& layer, std::string_view pass) {
  const Conv2dGeometry& g = layer.sizes;
  Row row;
  row.add("bench", "conv")
      .add("layer", layer.name)
      .add("count", layer.count)
      .add("pass", std::string(pass))
      .add("x", concat(g.x_shape()))
      .add("w", concat(g.w_shape()))
      .add("stride", concat(g.stride))
      .add("pad", concat(g.pad))
      .add("dtype", concat(bench.dtype))
      .add("layout", bench.settings.layout)
      .add("device", concat(bench.device))
      .add("threads", num_threads());
  return row;
}

struct Total {
  double seconds = 0, least_seconds = 0, operations = 0;
  std::vector<plan::RooflineDot> dots = {};
};

void time_pass(const ConvBench& bench, const plan::ConvLayer& layer, const char* pass, Total& total,
               const std::function<void()>& f) {
  const Conv2dGeometry& g = layer.sizes;
  conv_search().clear();  // afterwards it knows this pass alone, or nothing
  const Timing timing = measure(f, bench.timing);
  const auto searched = conv_search().choices();
  const double operations = plan::conv_operations(g),
               least = bench.roofline.seconds(g, bench.dtype);
  const auto count = static_cast<double>(layer.count);
  total.seconds += count * timing.median;
  total.least_seconds += count * least;
  total.operations += count * operations;
  total.dots.push_back({pass, operations, plan::conv_bytes(g, bench.dtype), timing.median});
  Row row = conv_row(bench, layer, pass);
  if (searched.empty()) {
    row.add("engine", "");
  } else {
    add_search(row, searched[0]);
  }
  row.add("roofline_seconds", least).add("of_roofline", least / timing.median);
  bench.out.row(add_timing(row, timing, "operations", operations));
  std::vector<std::string> cells = conv_cells(layer.name, layer.count, pass, timing.median,
                                              operations / timing.median, least / timing.median);
  if (!searched.empty()) cells.push_back(chosen_engine(searched[0]));
  bench.out.text(bench.table.row(cells));
}

/// The time of an engine that was timed, in seconds; NaN if there is none.
double timed_seconds(const ConvEngineResult* result) {
  const bool timed = result != nullptr && result->outcome == ConvOutcome::kTimed;
  return timed ? result->ms / 1e3 : std::numeric_limits<double>::quiet_NaN();
}

void show_fused(const ConvBench& bench, const plan::ConvLayer& layer, const Searched& searched) {
  const auto& [key, choice] = searched;
  const auto split = std::ranges::find(
      choice->engines, kSplitEngine, [](const ConvEngineResult& t) { return t.info.engine.index; });
  const double seconds = timed_seconds(&choice->engines[choice->chosen]),
               split_seconds = timed_seconds(split == choice->engines.end() ? nullptr : &*split);
  Row row = conv_row(bench, layer, concat(key.pass));
  row.add("fusion", concat(key.fusion)).add("seconds", seconds).add("split_seconds", split_seconds);
  add_search(row, searched);
  bench.out.row(row);
  bench.fused_rows.push_back({layer.name, formatted("{} x", layer.count), concat(key.pass),
                              concat(key.fusion), formatted("{:.3f}", 1e3 * seconds),
                              formatted("{:.3f}", 1e3 * split_seconds), chosen_engine(searched)});
}

/// What the search measures of the patterns that fuse relu(norm(x)) with the convolution, and the
/// convolution with the sums for the norm behind it: in a forward and a backward pass, as a step
/// of training has them.
void search_fused(const ConvBench& bench, const plan::ConvLayer& layer, const Tensor& x,
                  const Tensor& w, const Tensor& dy, const Conv2dOptions& options) {
  conv_search().clear();
  const EnableGrad on;
  const auto channels = [&](double value) {
    return full({layer.sizes.C}, value, {.device = bench.device});
  };
  const BatchNormTensors norm{channels(1), channels(0), channels(0), channels(1)};
  const Tensor input = x.detach().requires_grad_(), filters = w.detach().requires_grad_();
  batch_norm_relu_conv2d(input, norm, filters, {.training = true}, options).backward(dy);
  const auto searched = conv_search().choices();
  for (const Searched& one : std::views::reverse(searched)) {  // in the order of the step
    if (one.first.fusion != ConvFusion::kNone) show_fused(bench, layer, one);
  }
}

void time_layer(const ConvBench& bench, const plan::ConvLayer& layer, Total& total) {
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
  if (bench.fuses && !layer.first) search_fused(bench, layer, x, w, dy, options);
}

/// In f16 and NHWC only, as conv2d_may_fuse() and conv2d_suits_fused() have it.
bool may_fuse(const Settings& settings, Device device, DType dtype) {
  return device.is_cuda() && dtype == kF16 && settings.layout == "nhwc" && cudnn::enabled() &&
         cudnn::fusion() && cudnn::benchmark() && !deterministic();
}

void show_total(const ConvBench& bench, const Total& total) {
  const plan::Roofline& peaks = bench.roofline;
  bench.out.row(Row()
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
  if (bench.device.is_cuda()) sums.emplace_back();
  bench.out.text(bench.table.sum("all layers of a step", sums));
}

/// The table of what can be fused.
void show_fused_table(const ConvBench& bench) {
  if (bench.fused_rows.empty()) return;
  size_t name_width = 0;
  for (const auto& cells : bench.fused_rows) name_width = std::max(name_width, cells[0].size());
  TextTable table({{.heading = "fused", .width = name_width, .right = false},
                   {.heading = "", .width = 4},
                   {.heading = "pass", .width = 15, .right = false},
                   {.heading = "pattern", .width = 10, .right = false},
                   {.heading = "ms", .width = 7},
                   {.heading = "split", .width = 7},
                   {.heading = "engine", .width = kEngineWidth, .right = false, .rank = 1}},
                  2, terminal_width(STDOUT_FILENO));
  bench.out.text("\n" + table.heading());
  for (const auto& cells : bench.fused_rows) bench.out.text(table.row(cells));
  bench.out.sentence(
      "split: several kernels compute the same; ms: the fused kernel or split, whichever was "
      "faster in the search");
}

}  // namespace

ExitCode run_bench_conv(const Invocation& call) {
  Settings settings = call.settings;
  const Output out(settings.json);
  check_picture(settings.svg);
  const Device device = prepare_compute(settings);
  if (!settings.model) settings.model = "resnet18";
  refuse_model_file(settings, "bench conv");
  const int64_t batch = settings.batch_size.value_or(128), side = settings.image_size.value_or(32);
  manual_seed(static_cast<uint64_t>(settings.seed));
  const auto model =
      make_model(settings, {.classes = settings.classes, .in_channels = settings.in_channels});
  const auto layers = plan::conv_layers(*model, {batch, settings.in_channels, side, side});
  const NoGrad no_grad;
  const DType dtype = dtype_from_name(settings.dtype);
  const TimingOptions timing =
      lasting(settings.seconds,
              {.warm_up_seconds = 0.1, .window_seconds = 0.05, .windows = 5, .device = device});
  if (const auto most = settings.search_per_engine)
    cudnn::set_search_limits({.per_engine = *most, .of_first = *most});
  std::vector<TextColumn> more;
  if (device.is_cuda())
    more.push_back({.heading = "engine", .width = kEngineWidth, .right = false, .rank = 1});
  TextTable table = conv_table(layers, more, terminal_width(STDOUT_FILENO));
  std::vector<std::vector<std::string>> fused_rows;
  const ConvBench bench{out,       settings,
                        device,    dtype,
                        timing,    measure_roofline(settings, dtype, timing),
                        table,     may_fuse(settings, device, dtype),
                        fused_rows};
  const plan::Roofline& peaks = bench.roofline;
  out.text(formatted("{} batch {} {} {} on {}, {}; roofline {:.1f} GFLOP/s, {:.1f} GB/s",
                     *settings.model, batch, settings.dtype, settings.layout, concat(device),
                     count_text(num_threads(), "thread"), peaks.operations_per_second / 1e9,
                     peaks.bytes_per_second / 1e9));
  out.text(table.heading());
  Total total;
  for (const plan::ConvLayer& layer : layers) time_layer(bench, layer, total);
  show_total(bench, total);
  if (const std::string remark = table.remark(); !remark.empty()) out.sentence(remark);
  show_fused_table(bench);
  if (!settings.svg.empty()) {
    const std::string title =
        formatted("{} on {}: convolutions and the roofline", *settings.model, concat(device));
    write_file_atomic(settings.svg, plan::roofline_svg(title, peaks, total.dots));
    out.text(written_text(settings.svg));
  }
  return ExitCode::kDone;
}

}  // namespace lathe::cli
