// lathe summary: layers, shapes, parameters and multiply-adds of a model.
#include <sstream>

#include <fmt/format.h>

#include "lathe/nn/summary.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/training/compute.h"

namespace lathe::cli {

ExitCode run_summary(const Invocation& call) {
  Settings settings = call.settings;
  const Output out(settings.json);
  if (!settings.model) settings.model = "resnet18";
  const int64_t side = settings.image_size.value_or(32);
  const auto model =
      make_model(settings, {.classes = settings.classes, .in_channels = settings.in_channels});
  const Shape input{1, settings.in_channels, side, side};
  const nn::Summary summary = nn::summary(*model, input);
  std::ostringstream text;
  text << summary;
  out.text(text.str());
  out.row(Row()
              .add("model", *settings.model)
              .add("parameters", summary.parameters)
              .add("macs", summary.macs));
  return ExitCode::kDone;
}

}  // namespace lathe::cli
