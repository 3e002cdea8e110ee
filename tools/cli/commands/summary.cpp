// lathe summary: layers, shapes, parameters, multiply-adds and memory of a model.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>

#include "lathe/core/text/formatted.h"
#include "lathe/core/text/terminal.h"
#include "lathe/core/text/wrapping.h"
#include "lathe/nn/summary.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/model_file.h"

namespace lathe::cli {

namespace {

/// The shape of --input-size, or else of one image of --in-channels and --image-size.
Shape input_shape(const Settings& settings) {
  if (settings.input_size.empty()) {
    const int64_t side = settings.image_size.value_or(32);
    return {1, settings.in_channels, side, side};
  }
  Shape shape;
  for (const std::string& part : split_list(settings.input_size)) {
    if (shape.size() == 4) throw UsageError("--input-size: expected N,C,H,W, got more numbers");
    shape.push_back(parse_integer("--input-size", part, 1, 1'000'000));
  }
  if (shape.size() != 4)
    throw UsageError(formatted("--input-size: expected N,C,H,W, got \"{}\"", settings.input_size));
  return shape;
}

/// Calls take_model_file() for a model that gets this input.
/// throws: UsageError if a program takes other images.
void take_model_of(Settings& settings, const Shape& input) {
  settings.image_size.reset();
  settings.in_channels = input[1];
  take_model_file(settings);
  const std::optional<int64_t> side = settings.image_size;  // absent: any
  const bool has_side = !side || (input[2] == *side && input[3] == *side);
  if (has_side && input[1] == settings.in_channels) return;
  throw UsageError(formatted("--input-size {}: --model {} takes {} channels{}", settings.input_size,
                             *settings.model, settings.in_channels,
                             side ? formatted(" of {0} x {0}", *side) : ""));
}

}  // namespace

ExitCode run_summary(const Invocation& call) {
  Settings settings = call.settings;
  const Output out(settings.json);
  if (!settings.model) settings.model = "resnet18";
  if (settings.input_size.empty())
    take_model_file(settings);
  else
    take_model_of(settings, input_shape(settings));
  const Shape input = input_shape(settings);
  settings.image_size = std::min(input[2], input[3]);
  const auto model = make_model(settings, {.classes = settings.classes, .in_channels = input[1]});
  const nn::Summary summary = nn::summary(*model, input);
  const std::string text = nn::summary_text(summary, terminal_width(STDOUT_FILENO));
  out.text(text.substr(0, text.size() - 1));
  Row row;
  row.add("model", *settings.model)
      .add("input", concat(input))
      .add("parameters", summary.parameters)
      .add("trainable", summary.trainable);
  if (summary.macs > 0)
    row.add("macs", summary.macs);
  else
    row.add("macs", std::nan(""));  // null: not counted
  row.add("input_bytes", summary.input_bytes)
      .add("pass_bytes", summary.pass_bytes)
      .add("parameter_bytes", summary.parameter_bytes)
      .add("total_bytes", summary.total_bytes());
  out.row(row);
  return ExitCode::kDone;
}

}  // namespace lathe::cli
