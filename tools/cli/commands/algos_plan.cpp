// lathe algos plan: the engines that cuDNN has for a model's convolutions on a GPU that is
// described and need not be there.
#include <unistd.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/machine/gpu_description.h"
#include "lathe/core/math_mode.h"
#include "lathe/core/printable.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/terminal.h"
#include "lathe/core/text/text_table.h"
#include "lathe/core/text/wrapping.h"
#include "lathe/ops/conv/cudnn/conv2d_planner.h"
#include "lathe/ops/conv/search/conv2d_key.h"
#include "lathe/ops/conv/search/cudnn_settings.h"
#include "lathe/tools/cli/commands/conv_table.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/settings/described_gpu.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/model_file.h"

namespace lathe::cli {
namespace {

/// As a training step on a GPU has them.
void apply(const Settings& settings) {
  set_tf32(settings.tf32.value_or(true));
  set_deterministic(settings.deterministic);
  cudnn::set_workspace_limit(settings.workspace_limit << 20);
}

/// What is the same for all layers.
struct Plans {
  const Output& out;
  const Conv2dPlanner& planner;
  ConvMachine gpu;
  DType dtype;
  MemoryFormat format;
  TextTable& table;
  int64_t passes = 0, without_engine = 0, largest_bytes = 0;
};

/// The search's choice; one without engines if no engine can be used, for the reason `why`.
ConvChoice choice_for(const Conv2dPlanner& planner, const ConvKey& key, std::string& why) {
  const auto none = [&](const Error& e) {
    why = e.message();
    return ConvChoice{};
  };
  try {
    return planner.plan(key);
  } catch (const CudaError& e) {
    return none(e);
  } catch (const OutOfMemoryError& e) {
    return none(e);
  } catch (const ShapeError& e) {
    return none(e);
  }
}

/// The engine's setting goes first where room is short: nobody knows them by heart.
TextTable plan_table(const std::vector<plan::ConvLayer>& layers) {
  TextColumn layer{.heading = "layer", .right = false};
  for (const plan::ConvLayer& l : layers) layer.width = std::max(layer.width, columns_of(l.name));
  constexpr size_t kEngineWidth = 47;
  return {{layer,
           {.heading = "count"},
           {.heading = "pass", .width = 15, .right = false},
           {.heading = "workspace", .width = 11},
           {.heading = "deterministic", .width = 13},
           {.heading = "tensor cores", .width = 13, .rank = 3},
           {.heading = "usable", .width = 10, .rank = 2},
           {.heading = "engine", .width = kEngineWidth, .right = false, .rank = 1}},
          2,
          terminal_width(STDOUT_FILENO)};
}

void plan_pass(Plans& plans, const plan::ConvLayer& layer, ConvPass pass) {
  ConvKey key = conv2d_key(pass, conv2d_padded(layer.sizes, plans.format, plans.dtype),
                           plans.format, plans.dtype);
  key.machine = plans.gpu;
  std::string why;
  const ConvChoice choice = choice_for(plans.planner, key, why);
  const bool found = !choice.engines.empty();
  const ConvEngineInfo engine = found ? choice.info() : ConvEngineInfo{};
  const auto usable = std::ranges::count_if(choice.engines, &ConvEngineResult::usable);
  plans.passes += layer.count;
  plans.without_engine += found ? 0 : layer.count;
  plans.largest_bytes = std::max(plans.largest_bytes, engine.workspace_bytes);
  plans.out.row(Row()
                    .add("layer", layer.name)
                    .add("count", layer.count)
                    .add("pass", concat(pass))
                    .add("x", concat(layer.sizes.x_shape()))
                    .add("w", concat(layer.sizes.w_shape()))
                    .add("stride", concat(layer.sizes.stride))
                    .add("pad", concat(layer.sizes.pad))
                    .add("key", concat(key))
                    .add("engine", found ? concat(engine.engine) : "")
                    .add("workspace_bytes", engine.workspace_bytes)
                    .add("deterministic", engine.deterministic)
                    .add("tensor_cores", engine.tensor_cores)
                    .add("compiles", engine.compiles)
                    .add("usable", static_cast<int64_t>(usable))
                    .add("engines", static_cast<int64_t>(choice.engines.size()))
                    .add("note", why));
  std::vector<std::string> cells{layer.name, formatted("{} x", layer.count), concat(pass)};
  if (found) {
    cells.insert(cells.end(),
                 {readable_bytes(static_cast<uint64_t>(engine.workspace_bytes)),
                  yes_no(engine.deterministic), yes_no(engine.tensor_cores),
                  formatted("{} of {}", usable, choice.engines.size()), concat(engine.engine)});
  } else {
    cells.push_back(formatted("no engine: {}", printable(why.substr(0, why.find('\n')))));
  }
  plans.out.text(plans.table.row(cells));
}

}  // namespace

ExitCode run_algos_plan(const Invocation& call) {
  Settings settings = call.settings;
  const Output out(settings.json);
  const GpuDescription gpu = described_gpu("algos plan", settings.gpu);
  const Conv2dPlanner planner(gpu);
  apply(settings);
  if (!settings.model) settings.model = "resnet18";
  refuse_model_file(settings, "algos plan");
  const int64_t batch = settings.batch_size.value_or(128), side = settings.image_size.value_or(32);
  const auto model =
      make_model(settings, {.classes = settings.classes, .in_channels = settings.in_channels});
  const DType dtype = settings.amp == "off" ? kF32 : settings.amp == "fp16" ? kF16 : kBF16;
  const std::vector<plan::ConvLayer> layers =
      plan::conv_layers(*model, {batch, settings.in_channels, side, side});
  TextTable table = plan_table(layers);
  Plans plans{out,
              planner,
              {.device = gpu.name,
               .major = gpu.major,
               .minor = gpu.minor,
               .multiprocessors = gpu.multiprocessors,
               .library = planner.library()},
              dtype,
              settings.layout == "nhwc" ? kChannelsLast : kContiguous,
              table};
  out.text(formatted("{} batch {} {} {} on {}, as {} plans it without that GPU", *settings.model,
                     batch, concat(dtype), settings.layout, printable(gpu.name),
                     planner.library()));
  out.text(table.heading());
  for (const plan::ConvLayer& layer : layers) {
    plan_pass(plans, layer, ConvPass::kForward);
    if (!layer.first) plan_pass(plans, layer, ConvPass::kBackwardInput);
    plan_pass(plans, layer, ConvPass::kBackwardWeight);
  }
  if (const std::string remark = table.remark(); !remark.empty()) out.sentence(remark);
  out.row(Row()
              .add("layer", "all")
              .add("gpu", gpu.name)
              .add("library", planner.library())
              .add("passes", plans.passes)
              .add("without_engine", plans.without_engine)
              .add("largest_workspace_bytes", plans.largest_bytes));
  out.text(formatted("{} convolutions in a step, {} without an engine; largest workspace {}",
                     plans.passes, plans.without_engine,
                     readable_bytes(static_cast<uint64_t>(plans.largest_bytes))));
  return ExitCode::kDone;
}

}  // namespace lathe::cli
