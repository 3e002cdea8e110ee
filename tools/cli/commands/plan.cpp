// lathe plan: every launch of a training step on a GPU that need not be there, with its bytes,
// operations and predicted time.
#include <unistd.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "lathe/core/cuda.h"
#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/format.h"
#include "lathe/core/printable.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/terminal.h"
#include "lathe/core/text/text_table.h"
#include "lathe/core/text/wrapping.h"
#include "lathe/tools/cli/commands/planned_run.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/replaceable.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/settings/described_gpu.h"
#include "lathe/tools/cli/settings/training_recipes.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/model_file.h"
#include "lathe/tools/cli/training/optimizers.h"
#include "lathe/tools/cli/training/random_batch.h"
#include "lathe/train/plan/fused_launches.h"
#include "lathe/train/plan/gpu_model.h"
#include "lathe/train/plan/launch_list.h"
#include "lathe/train/plan/measured_step.h"
#include "lathe/train/plan/memory_plan.h"
#include "lathe/train/plan/step_ledger.h"
#include "lathe/train/plan/step_recording.h"
#include "lathe/train/plan/unmeasured_launches.h"
#include "lathe/train/report/line_chart.h"

namespace lathe::cli {
namespace {

constexpr int64_t kSmall = 2, kLarge = 3;  // the batches that run on the CPU

/// The GPU with its rates, of the data sheet or of the flags.
GpuDescription planned_gpu(const Settings& settings) {
  GpuDescription gpu = described_gpu("plan", settings.gpu);
  if (settings.peak_gflops > 0) {
    const double flops = 1e9 * settings.peak_gflops;
    gpu.peaks.half_flops = gpu.peaks.tf32_flops = gpu.peaks.f32_flops = flops;
  }
  if (settings.peak_gbytes > 0) gpu.peaks.bytes = 1e9 * settings.peak_gbytes;
  if (gpu.peaks.f32_flops == 0 || gpu.peaks.bytes == 0) {
    throw UsageError(
        formatted("plan: no data sheet of {} is known; give --peak-gflops and --peak-gbytes",
                  printable(gpu.name)));
  }
  return gpu;
}

/// Where planned_gpu() has the rates from.
const char* source_of_rates(const Settings& settings) {
  const bool flops = settings.peak_gflops > 0, bytes = settings.peak_gbytes > 0;
  if (flops && bytes) return "given";
  if (flops) return "the memory's from the data sheet, the others given";
  return bytes ? "the memory's given, the others from the data sheet" : "data sheet";
}

/// The step of the settings with a rate so small that values stay as they are.
train::StepSetup step_setup(const Settings& settings) {
  train::StepSetup setup = random_step_setup(settings);
  setup.model = [&settings, make = setup.model] {
    manual_seed(static_cast<uint64_t>(settings.seed));
    return make();
  };
  setup.optimizer = [&settings](nn::Module& model) {
    Settings update = settings;
    update.lr = 1e-8;
    for (std::optional<double>* const own : {&update.bias_lr, &update.head_lr})
      if (*own) *own = update.lr;
    update.weight_decay = 5e-4;
    return make_optimizer(update, model);
  };
  return setup;
}

plan::SmallStep small_step(const plan::StepRecording& recording, const Settings& settings) {
  return {recording.batch, plan::launches_of(recording, {.tf32 = settings.tf32.value_or(true)})};
}

/// The times of a step's ends, in seconds.
struct Range {
  double fast = 0, slow = 0;
};

Range range_of(const plan::Launch& launch, const GpuDescription& gpu) {
  return {plan::seconds_of(launch, gpu, plan::kFast), plan::seconds_of(launch, gpu, plan::kSlow)};
}

TextTable launch_table(const std::vector<plan::Launch>& launches, bool is_measured) {
  TextColumn op{.heading = "op", .right = false}, layer{.heading = "layer", .right = false},
      kernel{.heading = "launch", .right = false};
  for (const plan::Launch& launch : launches) {
    op.width = std::max(op.width, launch.op.size());
    layer.width = std::max(layer.width, columns_of(launch.layer));
    kernel.width = std::max(kernel.width, launch.kernel.size());
  }
  std::vector<TextColumn> columns{op,
                                  layer,
                                  kernel,
                                  {.heading = "MB read", .width = 8, .rank = 3},
                                  {.heading = "written", .width = 8, .rank = 4},
                                  {.heading = "GFLOP", .width = 8, .rank = 1},
                                  {.heading = "us fast", .width = 7},
                                  {.heading = "slow", .width = 7, .rank = 2}};
  if (is_measured) columns.push_back({.heading = "op took", .width = 8});
  return {std::move(columns), 2, terminal_width(STDOUT_FILENO)};
}

/// `measured`: what its op took on the GPU that is there, if that is known and stands here.
void print_launch(const Output& out, TextTable& table, const plan::Launch& launch,
                  const GpuDescription& gpu, std::optional<double> measured) {
  const Range time = range_of(launch, gpu);
  Row row;
  row.add("launch", launch.kernel)
      .add("op", launch.op)
      .add("layer", launch.layer)
      .add("kind", std::string(plan::name_of(launch.kind)))
      .add("library", launch.library)
      .add("read_bytes", launch.read_bytes)
      .add("written_bytes", launch.written_bytes)
      .add("extra_bytes", launch.extra_bytes)
      .add("flops", launch.flops)
      .add("seconds_fast", time.fast)
      .add("seconds_slow", time.slow);
  if (measured) row.add("op_seconds_measured", *measured);
  out.row(row);
  out.text(table.row(
      {launch.op, launch.layer, launch.kernel, formatted("{:.2f}", launch.read_bytes / 1e6),
       formatted("{:.2f}", launch.written_bytes / 1e6), formatted("{:.2f}", launch.flops / 1e9),
       formatted("{:.1f}", 1e6 * time.fast), formatted("{:.1f}", 1e6 * time.slow),
       measured ? formatted("{:.1f}", 1e6 * *measured) : ""}));
}

void print_kinds(const Output& out, const std::vector<plan::Launch>& launches,
                 const GpuDescription& gpu) {
  out.text("");
  TextTable table({{.heading = "kind", .width = 24, .right = false},
                   {.heading = "launches"},
                   {.heading = "MB", .width = 10},
                   {.heading = "GFLOP", .width = 10, .rank = 1},
                   {.heading = "ms fast"},
                   {.heading = "slow", .width = 7}},
                  0, terminal_width(STDOUT_FILENO));
  out.text(table.heading());
  for (int k = 0; k < plan::kLaunchKinds; ++k) {
    const auto kind = static_cast<plan::LaunchKind>(k);
    const plan::KindSum sum = plan::sum_of(launches, kind);
    if (sum.launches == 0) continue;
    Range time;
    for (const plan::Launch& launch : launches) {
      if (launch.kind != kind) continue;
      time.fast += range_of(launch, gpu).fast;
      time.slow += range_of(launch, gpu).slow;
    }
    out.row(Row()
                .add("kind", std::string(plan::name_of(kind)))
                .add("launches", sum.launches)
                .add("bytes", sum.bytes)
                .add("extra_bytes", sum.extra_bytes)
                .add("flops", sum.flops)
                .add("seconds_fast", time.fast)
                .add("seconds_slow", time.slow));
    out.text(
        table.row({std::string(plan::name_of(kind)), formatted("{}", sum.launches),
                   formatted("{:.1f}", sum.bytes / 1e6), formatted("{:.1f}", sum.flops / 1e9),
                   formatted("{:.2f}", 1e3 * time.fast), formatted("{:.2f}", 1e3 * time.slow)}));
  }
}

void print_step(const Output& out, const Settings& settings, const GpuDescription& gpu,
                const std::vector<plan::Launch>& launches, int64_t batch) {
  const Range time{plan::seconds_of(launches, gpu, plan::kFast),
                   plan::seconds_of(launches, gpu, plan::kSlow)};
  const auto images = static_cast<double>(batch);
  plan::KindSum light;  // batch norm and what is element-wise
  for (const plan::LaunchKind kind :
       {plan::LaunchKind::kBatchNormForward, plan::LaunchKind::kBatchNormBackward,
        plan::LaunchKind::kElementwise}) {
    light.bytes += plan::sum_of(launches, kind).bytes;
    light.extra_bytes += plan::sum_of(launches, kind).extra_bytes;
  }
  const auto own = std::ranges::count(launches, false, &plan::Launch::library);
  out.row(Row()
              .add("plan", *settings.model)
              .add("gpu", gpu.name)
              .add("batch_size", batch)
              .add("image_size", settings.image_size.value_or(32))
              .add("amp", settings.amp)
              .add("optimizer", settings.optimizer)
              .add("launches", static_cast<int64_t>(launches.size()))
              .add("own_launches", static_cast<int64_t>(own))
              .add("memory_bound_bytes", light.bytes)
              .add("memory_bound_extra_bytes", light.extra_bytes)
              .add("seconds_fast", time.fast)
              .add("seconds_slow", time.slow)
              .add("images_per_second_low", images / time.slow)
              .add("images_per_second_high", images / time.fast));
  out.text("");
  out.sentence(
      formatted("batch norm and element-wise kernels move {:.0f} MB, {:.0f} MB of it only to pad "
                "channels: {:.3f} times what they need",
                light.bytes / 1e6, light.extra_bytes / 1e6,
                light.bytes / std::max(light.bytes - light.extra_bytes, 1.0)));
  out.text(formatted(
      "{} launches, {} of them of lathe's own kernels: {:.2f} to {:.2f} ms per step, {:.0f} to "
      "{:.0f} img/s",
      launches.size(), own, 1e3 * time.fast, 1e3 * time.slow, images / time.slow,
      images / time.fast));
}

/// The same step where `--cudnn-benchmark` finds cuDNN's fused kernels to be the fastest.
void print_fused(const Output& out, const GpuDescription& gpu,
                 const std::vector<plan::Launch>& launches, int64_t batch) {
  const plan::FusedStep fused = plan::fused_step(launches);
  if (fused.layers + fused.sums == 0) return;
  const Range time{plan::seconds_of(fused.launches, gpu, plan::kFast),
                   plan::seconds_of(fused.launches, gpu, plan::kSlow)};
  double bytes = 0;
  for (const plan::Launch& launch : fused.launches) bytes += launch.bytes();
  const auto images = static_cast<double>(batch);
  const auto own = std::ranges::count(fused.launches, false, &plan::Launch::library);
  out.row(Row()
              .add("fused_layers", fused.layers)
              .add("sums_by_convolutions", fused.sums)
              .add("launches", static_cast<int64_t>(fused.launches.size()))
              .add("own_launches", static_cast<int64_t>(own))
              .add("bytes", bytes)
              .add("seconds_fast", time.fast)
              .add("seconds_slow", time.slow)
              .add("images_per_second_low", images / time.slow)
              .add("images_per_second_high", images / time.fast));
  out.sentence(
      formatted("if cuDNN's fused kernels are as fast as its plain ones, with batch norm, relu and "
                "convolution fused in {} layers and the sums for batch norm computed by {} "
                "convolutions: {} launches, {} of them of lathe's own kernels, {:.0f} MB: {:.2f} "
                "to {:.2f} ms per step, {:.0f} to {:.0f} img/s",
                fused.layers, fused.sums, fused.launches.size(), own, bytes / 1e6, 1e3 * time.fast,
                1e3 * time.slow, images / time.slow, images / time.fast));
}

/// The step, plain and with fused layers, with parts that LATHE_UNMEASURED turns on.
void print_unmeasured(const Output& out, const GpuDescription& gpu,
                      const std::vector<plan::Launch>& launches, int64_t batch,
                      const std::vector<Unmeasured>& parts) {
  std::string names;
  std::vector<plan::Launch> plain = launches, fused = plan::fused_step(launches).launches;
  for (const Unmeasured part : parts) {
    names += concat(names.empty() ? "" : ",", std::string(name_of(part)));
    // Only fused kernels can go on through a block's end.
    if (part != Unmeasured::kResidualGrad) plain = plan::with_part(std::move(plain), part);
    fused = plan::with_part(std::move(fused), part);
  }
  const double before = plan::seconds_of(launches, gpu, plan::kFast) +
                        plan::seconds_of(plan::fused_step(launches).launches, gpu, plan::kFast);
  if (plan::seconds_of(plain, gpu, plan::kFast) + plan::seconds_of(fused, gpu, plan::kFast) ==
      before)
    return;  // nothing in it for these parts
  const Range time{plan::seconds_of(plain, gpu, plan::kFast),
                   plan::seconds_of(plain, gpu, plan::kSlow)},
      of_fused{plan::seconds_of(fused, gpu, plan::kFast),
               plan::seconds_of(fused, gpu, plan::kSlow)};
  const auto images = static_cast<double>(batch);
  out.row(Row()
              .add("unmeasured", names)
              .add("seconds_fast", time.fast)
              .add("seconds_slow", time.slow)
              .add("fused_seconds_fast", of_fused.fast)
              .add("fused_seconds_slow", of_fused.slow));
  out.sentence(formatted(
      "with LATHE_UNMEASURED={}: {:.2f} to {:.2f} ms per step, {:.0f} to {:.0f} "
      "img/s; fused {:.2f} to {:.2f} ms, {:.0f} to {:.0f} img/s",
      names, 1e3 * time.fast, 1e3 * time.slow, images / time.slow, images / time.fast,
      1e3 * of_fused.fast, 1e3 * of_fused.slow, images / of_fused.slow, images / of_fused.fast));
}

/// Driver, context and libraries take memory too.
constexpr int64_t kContextBytes = int64_t{1} << 30;

/// The memory that is there for the process: without driver and context.
int64_t room_of(const GpuDescription& gpu) {
  return std::max<int64_t>(gpu.memory_bytes - kContextBytes, 0);
}

/// A chart of the memory over one step, with a mark at its peak.
/// throws: ValueError if the step does not fit.
std::string memory_svg(const GpuDescription& gpu, const plan::MemoryScript& script,
                       const Settings& settings, int64_t batch) {
  const std::vector<int64_t> bytes = plan::memory_over_step(script, batch, room_of(gpu));
  LATHE_CHECK(ValueError, !bytes.empty(),
              "--svg: no picture is written, because a step with batch ", batch,
              " does not fit into the GPU's memory; the largest batch stands above");
  report::LineChart chart{.title = formatted("Memory over a training step: {}, batch {}, amp {}",
                                             *settings.model, batch, settings.amp),
                          .x = {.label = "blocks taken and given back"},
                          .y = {.label = "MiB", .low = 0.0},
                          .lines = {{.name = "allocated"}}};
  for (size_t i = 0; i < bytes.size(); ++i)
    chart.lines[0].points.push_back(
        {static_cast<double>(i), static_cast<double>(bytes[i]) / (1 << 20)});
  const auto peak = std::ranges::max_element(bytes);
  if (peak != bytes.end()) {
    chart.y.high = 1.1 * static_cast<double>(*peak) / (1 << 20);  // the mark's text has room
    chart.marks.push_back({static_cast<double>(peak - bytes.begin()),
                           formatted("peak {}", readable_bytes(static_cast<uint64_t>(*peak)))});
  }
  return report::svg_of(chart);
}

void print_memory(const Output& out, const GpuDescription& gpu, const plan::MemoryScript& script,
                  int64_t batch) {
  const int64_t room = room_of(gpu);
  const std::optional<plan::PlannedMemory> memory = plan::replay(script, batch, room);
  const int64_t largest = plan::largest_batch(script, room);
  Row row;
  row.add("memory_bytes", room).add("fits", memory.has_value()).add("largest_batch", largest);
  if (memory) {
    row.add("peak_allocated_bytes", memory->peak_allocated);
    row.add("reserved_bytes", memory->reserved);
  }
  out.row(row);
  const auto text = [](int64_t bytes) { return readable_bytes(static_cast<uint64_t>(bytes)); };
  out.sentence(formatted(
      "{}; largest batch {}{} in {}, with {} left to the driver; not counted are cuDNN's "
      "workspaces, which `lathe algos plan` names",
      memory ? formatted("memory: peak {}, reserved {}", text(memory->peak_allocated),
                         text(memory->reserved))
             : "memory: does not fit",
      largest, largest == plan::kMostImages ? " or more" : "", text(room), text(kContextBytes)));
}

/// "cuda:0 (NVIDIA H200)".
std::string gpu_text(Device gpu) {
  return formatted("{} ({})", concat(gpu), printable(cuda::device_info(gpu.index).name));
}

/// The step on the GPU that is there. None if its memory does not suffice, which is then said: the
/// plan is of another GPU, which may have more.
std::optional<plan::MeasuredStep> measured_on(const Output& out, const Settings& settings,
                                              Device gpu, int64_t batch) {
  try {
    return plan::measure_step(step_setup(settings), gpu, batch);
  } catch (const OutOfMemoryError& error) {
    out.row(Row().add("measured", concat(gpu)).add("error", error.message()));
    out.sentence(formatted("not measured on {}: {}", gpu_text(gpu), error.message()));
    out.text("");
    return std::nullopt;
  }
}

/// The measured step beside the predicted one, and what of it stands at no launch.
void print_measured(const Output& out, const plan::MeasuredStep& step,
                    const std::vector<std::optional<double>>& beside, Device gpu, int64_t batch) {
  double all = 0, placed = 0;
  for (const plan::MeasuredOp& op : step.ops) all += op.seconds;
  for (const std::optional<double>& time : beside) placed += time.value_or(0);
  const double rate = static_cast<double>(batch) / step.seconds;
  out.row(Row()
              .add("measured", concat(gpu))
              .add("gpu", cuda::device_info(gpu.index).name)
              .add("seconds", step.seconds)
              .add("images_per_second", rate)
              .add("seconds_of_ops", all)
              .add("seconds_beside_no_launch", all - placed));
  out.sentence(formatted(
      "measured on {}, kernel by kernel, without a search for convolutions: {:.2f} ms per step, "
      "{:.0f} img/s; the ops took {:.2f} ms, of which {:.2f} ms belong to no launch above",
      gpu_text(gpu), 1e3 * step.seconds, rate, 1e3 * all, 1e3 * (all - placed)));
}

}  // namespace

ExitCode run_plan(const Invocation& call) {
  Settings settings = call.settings;
  const Output out(settings.json);
  const GpuDescription gpu = planned_gpu(settings);
  check_picture(settings.svg);
  Settings there = settings;  // for the GPU that is there, if one is
  there.cudnn_benchmark = false;
  const Device device = prepare_compute(there);
  settings.device = "cpu";
  prepare_compute(settings);
  if (!settings.model) settings.model = "resnet18";
  take_model_file(settings);
  const int64_t batch = settings.batch_size.value_or(128);
  settings.batch_size = there.batch_size = batch;
  const int64_t side = settings.image_size.value_or(32);
  const train::StepSetup setup = step_setup(settings);
  const plan::StepRecording small = plan::record_small_step(setup, kSmall),
                            large = plan::record_small_step(setup, kLarge);
  const std::vector<plan::Launch> launches =
      plan::launches_at(batch, small_step(small, settings), small_step(large, settings));
  const plan::MemoryScript script = plan::memory_script(small, large);

  out.text(formatted("{} batch {} amp {} {} {} x {} {} on {}, predicted without that GPU",
                     *settings.model, batch, settings.amp, settings.layout, side, side,
                     settings.optimizer, printable(gpu.name)));
  for (const std::string& line : plan::assumptions(gpu, source_of_rates(settings)))
    out.sentence(line);
  out.text("");
  std::optional<plan::MeasuredStep> measured;
  if (device.is_cuda()) {
    there.model = settings.model;
    prepare_compute(there);
    measured = measured_on(out, there, device, batch);
  }
  const std::vector<std::optional<double>> beside =
      plan::times_beside(launches, measured ? measured->ops : std::vector<plan::MeasuredOp>());
  TextTable table = launch_table(launches, measured.has_value());
  out.text(table.heading());
  for (size_t i = 0; i < launches.size(); ++i)
    print_launch(out, table, launches[i], gpu, beside[i]);
  if (const std::string remark = table.remark(); !remark.empty()) out.sentence(remark);
  print_kinds(out, launches, gpu);

  print_step(out, settings, gpu, launches, batch);
  if (measured) print_measured(out, *measured, beside, device, batch);
  print_fused(out, gpu, launches, batch);
  for (const std::vector<Unmeasured>& parts :
       {std::vector{Unmeasured::kReluBits}, std::vector{Unmeasured::kDependentLaunch},
        std::vector{Unmeasured::kResidualGrad},
        std::vector{Unmeasured::kReluBits, Unmeasured::kResidualGrad,
                    Unmeasured::kDependentLaunch}})
    print_unmeasured(out, gpu, launches, batch, parts);
  if (settings.recipe != kNoRecipe) print_run(out, settings, gpu, launches, batch);
  print_memory(out, gpu, script, batch);
  if (!settings.svg.empty()) {
    write_file_atomic(settings.svg, memory_svg(gpu, script, settings, batch));
    out.text(written_text(settings.svg));
  }
  return ExitCode::kDone;
}

}  // namespace lathe::cli
