// lathe bench step: forward, loss, backward and update on a synthetic batch that is in memory, with
// a loss scaler and as a CUDA graph where `lathe train` has them.
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>

#include "lathe/core/capture/step_graphs.h"
#include "lathe/core/cuda.h"
#include "lathe/core/debug/determinism.h"
#include "lathe/core/hooks/memory_use.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/text/count_text.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/terminal.h"
#include "lathe/core/text/wrapping.h"
#include "lathe/core/thread_pool.h"
#include "lathe/graph/compile.h"
#include "lathe/ops/conv/search/cudnn_settings.h"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/optim/sgd.h"
#include "lathe/profile/profiler.h"
#include "lathe/profile/rates.h"
#include "lathe/profile/table.h"
#include "lathe/tools/cli/commands/bench.h"
#include "lathe/tools/cli/commands/conv_table.h"
#include "lathe/tools/cli/commands/roofline.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/model_file.h"
#include "lathe/tools/cli/training/random_batch.h"
#include "lathe/train/metrics_row.h"
#include "lathe/train/plan/step_layers.h"

namespace lathe::cli {
namespace {

/// The first steps make what stays: the optimiser's memory, the choices. The third one records
/// the graph, if steps are captured. The peak of memory is that of the steps after it.
/// throws: CommandError if the step cannot be recorded.
void prepare(train::Step& step, const std::function<void()>& make_step, Device device) {
  profile::reset_memory_peak(device);
  cuda::StepGraphs* const graphs = step.graphs();
  if (graphs == nullptr) return;
  for (int i = 0; i < 2; ++i) make_step();
  cuda::empty_cache();  // of those steps: the graph has memory of its own
  profile::reset_memory_peak(device);
  make_step();
  if (const std::string problem = graphs->take_problem(); !problem.empty())
    throw CommandError(ExitCode::kError, "the step cannot be recorded as a CUDA graph: " + problem);
}

constexpr int64_t kProfiledSteps = 5;

DType computed_dtype(const Settings& settings) {
  return settings.amp == "off" ? kF32 : settings.amp == "bf16" ? kBF16 : kF16;
}

plan::Roofline measured_peaks(const Settings& settings, DType dtype, Device device) {
  return measure_roofline(
      settings, dtype,
      lasting(settings.seconds,
              {.warm_up_seconds = 0.1, .window_seconds = 0.05, .windows = 5, .device = device}));
}

/// The table of ops of some steps, with their shares of the device's peaks.
void print_profile(const Output& out, const Settings& settings, Device device,
                   const std::function<void()>& step) {
  const plan::Roofline peaks = measured_peaks(settings, computed_dtype(settings), device);
  profile::Profiler profiler({.profile_memory = true});
  for (int64_t i = 0; i < kProfiledSteps; ++i) {
    step();
    profiler.step();
  }
  profiler.stop();
  const profile::Averages averages = profiler.key_averages();
  const profile::Peaks limits{peaks.operations_per_second, peaks.bytes_per_second};
  for (const profile::Average& average : averages.rows()) {
    out.row(Row()
                .add("bench", "profile")
                .add("name", average.name)
                .add("calls", average.calls)
                .add("self_cpu_seconds", 1e-9 * static_cast<double>(average.self_cpu_ns))
                .add("cpu_seconds", 1e-9 * static_cast<double>(average.cpu_total_ns))
                .add("self_device_seconds", 1e-9 * static_cast<double>(average.self_device_ns))
                .add("device_seconds", 1e-9 * static_cast<double>(average.device_total_ns))
                .add("operations", average.flops)
                .add("bytes", average.bytes)
                .add("of_peak", profile::rates_of(average, limits).of_peak)
                .add("bound", std::string(profile::bound_of(average, limits))));
  }
  const int width = terminal_width(STDOUT_FILENO);
  const profile::FittedTable table = profile::fitted_table(averages, {.peaks = limits}, width);
  out.text(table.text);
  const std::string remark = remark_on(table.left_out, width);
  if (!remark.empty()) out.sentence(remark);
  out.text(formatted("{} steps; peaks {:.1f} GFLOP/s, {:.1f} GB/s", kProfiledSteps,
                     peaks.operations_per_second / 1e9, peaks.bytes_per_second / 1e9));
}

/// The table of convolutions, and the shares of everything. Times are those of one step, all calls
/// of a row together.
void print_layers(const Output& out, const Settings& settings, nn::Module& model,
                  const data::Batch& batch, const std::function<void()>& step) {
  const DType dtype = computed_dtype(settings);
  const plan::Roofline peaks = measured_peaks(settings, dtype, batch.x.device());
  const std::vector<plan::ConvLayer> layers = plan::conv_layers(model, batch.x.shape());
  profile::Profiler profiler({.record_shapes = true, .device_times = false});
  for (int64_t i = 0; i < kProfiledSteps; ++i) {
    step();
    profiler.step();
  }
  profiler.stop();
  const plan::StepTimes times = plan::step_times(profiler.recording(), layers);
  constexpr double kSteps = kProfiledSteps;
  out.text(formatted("roofline {:.1f} GFLOP/s, {:.1f} GB/s", peaks.operations_per_second / 1e9,
                     peaks.bytes_per_second / 1e9));
  TextTable table =
      conv_table(layers, {{.heading = "reorder", .width = 8}}, terminal_width(STDOUT_FILENO));
  out.text(table.heading());
  for (const plan::LayerTime& time : times.layers) {
    const Conv2dGeometry& g = time.layer->sizes;
    const auto calls = static_cast<double>(time.calls);
    const double rate = calls * plan::conv_operations(g) / time.seconds;
    const double of_roofline = calls * peaks.seconds(g, dtype) / time.seconds;
    out.row(Row()
                .add("bench", "layers")
                .add("layer", time.layer->name)
                .add("count", time.count)
                .add("pass", plan::name_of(time.pass))
                .add("x", concat(g.x_shape()))
                .add("w", concat(g.w_shape()))
                .add("seconds", time.seconds / kSteps)
                .add("reorder_seconds", time.reorder_seconds / kSteps)
                .add("roofline_seconds", peaks.seconds(g, dtype))
                .add("operations_per_second", rate)
                .add("of_roofline", of_roofline));
    std::vector<std::string> cells =
        conv_cells(time.layer->name, time.count, plan::name_of(time.pass), time.seconds / kSteps,
                   rate, of_roofline);
    cells.push_back(formatted("{:.1f} %", 100 * time.reorder_seconds / time.seconds));
    out.text(table.row(cells));
  }
  for (const plan::StepPart& part : times.parts) {
    out.row(Row()
                .add("bench", "part")
                .add("part", part.name)
                .add("seconds", part.seconds / kSteps)
                .add("share", part.seconds / times.seconds));
    out.text(table.sum(part.name, {formatted("{:.3f}", 1e3 * part.seconds / kSteps), "", "",
                                   formatted("{:.1f} %", 100 * part.seconds / times.seconds)}));
  }
}

/// Forward and backward twice from the same weights and random numbers.
ExitCode check_step(const Output& out, const Settings& settings, nn::Module& model,
                    const data::Batch& batch) {
  const debug::DeterminismReport report = debug::check_determinism([&] {
    manual_seed(static_cast<uint64_t>(settings.seed));
    model.zero_grad();
    cross_entropy(scores_of(model, batch.x, settings), batch.y).backward();
  });
  Row row;
  row.add("bench", "determinism").add("results", report.results).add("equal", report.ok());
  if (report.difference) {
    row.add("op", report.difference->op).add("backward", report.difference->backward);
    row.add("inside", report.difference->inside).add("input", report.difference->input);
    row.add("place", report.difference->place).add("layer", report.difference->layer);
    row.add("call", report.difference->call);
  }
  out.row(row);
  out.text(report.text());
  return report.ok() ? ExitCode::kDone : ExitCode::kCheckFailed;
}

/// One row of figures, and lines for people.
void print_timing(const Output& out, const Settings& settings, Device device, int64_t batch,
                  const Timing& timing) {
  Row row;
  row.add("bench", "step")
      .add("model", *settings.model)
      .add("batch_size", batch)
      .add("threads", num_threads())
      .add("device", concat(device))
      .add("layout", settings.layout)
      .add("amp", settings.amp)
      .add("conv_exact", settings.conv_exact)
      .add("recompute", settings.recompute)
      .add("compile", settings.compile);
  if (device.is_cuda()) {
    row.add("capture", settings.capture).add("conv_fusion", settings.conv_fusion);
    row.add("tf32", *settings.tf32).add("cudnn_benchmark", *settings.cudnn_benchmark);
    row.add("memory_reserved_peak", static_cast<int64_t>(cuda::max_memory_reserved(device)));
  }
  const profile::MemoryUse memory = profile::memory_use(device);
  train::add_memory(row, memory);
  const double rate = static_cast<double>(batch) / timing.median;
  out.row(add_timing(row, timing, "images", static_cast<double>(batch)));
  out.text(
      formatted("{} batch {}, {}: {:.1f} img/s, {:.2f} ms per step (quartiles {:.2f} and {:.2f})",
                *settings.model, batch, count_text(num_threads(), "thread"), rate,
                1e3 * timing.median, 1e3 * timing.low, 1e3 * timing.high));
  out.text(memory.text());
}

}  // namespace

ExitCode run_bench_step(const Invocation& call) {
  Settings settings = call.settings;
  const Output out(settings.json);
  const Device device = prepare_compute(settings);
  cudnn::set_fusion(settings.conv_fusion);
  if (settings.layers && !device.is_cpu()) {
    throw UsageError(
        formatted("--layers is for a CPU, not {}; use --profile --no-capture, or lathe bench conv",
                  concat(device)));
  }
  if (settings.compile && settings.recompute && settings.amp == "off")
    throw UsageError("--recompute has no effect in the graph of --compile; leave one of them out");
  if (!settings.model) settings.model = "resnet18";
  take_model_file(settings);
  const int64_t batch = settings.batch_size.value_or(128);
  const ModelShape shape{.classes = settings.classes, .in_channels = settings.in_channels};
  manual_seed(static_cast<uint64_t>(settings.seed));
  const auto model = make_model(settings, shape);
  place_model(*model, device, settings);
  optim::SGD optimizer(model->parameters(), {.lr = 0.01, .momentum = 0.9, .weight_decay = 5e-4});
  const data::Batch made = random_batch(settings, shape, device, batch);
  if (settings.check_determinism) return check_step(out, settings, *model, made);
  const train::LossFunction loss = loss_of(*model, settings);
  std::optional<jit::CompiledFunction> compiled;
  if (settings.compile) {
    compiled = jit::compile([&](const Tensors& t) { return Tensors{loss(t).loss}; }, model.get());
  }
  const train::LossFunction compiled_loss = [&](const Tensors& t) {
    return train::Result{.loss = (*compiled)(t)[0]};
  };
  train::StepOptions options = step_options(settings);
  train::Step step(*model, optimizer, compiled ? compiled_loss : loss, options);
  const std::function<void()> make_step = [&] { step({made.x, made.y}, {.stays = true}); };
  prepare(step, make_step, device);
  const Timing timing = measure(
      make_step,
      lasting(settings.seconds, {.warm_up_seconds = 1, .window_seconds = 0.5, .device = device}));
  print_timing(out, settings, device, batch, timing);
  if (compiled) out.verbatim(compiled->explain());
  if (!settings.profile && !settings.layers) return ExitCode::kDone;
  options.capture = false;  // tables show each op
  train::Step by_ops(*model, optimizer, compiled ? compiled_loss : loss, options);
  const std::function<void()> make_ops = [&] { by_ops({made.x, made.y}); };
  if (settings.profile) print_profile(out, settings, device, make_ops);
  if (settings.layers) print_layers(out, settings, *model, made, make_ops);
  return ExitCode::kDone;
}

}  // namespace lathe::cli
