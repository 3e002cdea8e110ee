// open_saved_run(): which file has the weights, and the settings of the run.
#include "lathe/tools/cli/training/saved_run.h"

#include <filesystem>

#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/formatted.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/recipe.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/datasets.h"
#include "lathe/tools/cli/training/fine_tuning.h"

namespace lathe::cli {

std::string weights_of(const Settings& settings) {
  if (!settings.weights.empty()) return settings.weights;
  if (settings.run_dir.empty())
    throw UsageError("which model? name a --run-dir, or --weights with --model and --dataset");
  for (const char* name : {"best.safetensors", "last.safetensors"}) {
    const auto path = std::filesystem::path(settings.run_dir) / name;
    std::error_code missing;
    if (std::filesystem::exists(path, missing)) return path.string();
  }
  throw CommandError(
      ExitCode::kData,
      formatted("{} holds neither best.safetensors nor last.safetensors", settings.run_dir));
}

SavedRun open_saved_run(const Settings& asked) {
  SavedRun run{.settings = asked};
  const std::string weights = weights_of(asked);
  if (!asked.model) throw UsageError("--weights needs --model");
  if (!asked.dataset) throw UsageError("--weights needs --dataset");
  complete(run.settings, look_around(asked));
  choose_stem(run.settings, weights);
  run.device = prepare_compute(run.settings);
  if (asked.split == "val" && !has_part(run.settings, Part::kVal))
    throw UsageError(
        "--split val needs the --val-split that the run was trained with, or a folder with val and "
        "test");
  const Part part = asked.split == "train" ? Part::kTrain
                    : asked.split == "val" ? Part::kVal
                                           : Part::kTest;
  run.images = open_dataset(run.settings, part, false);
  run.model = make_empty_model(
      run.settings, {.classes = run.images->classes(), .in_channels = run.images->channels()});
  Log log(asked.quiet);
  for (const std::string& line : load_weights(*run.model, weights)) log.line(line);
  place_model(*run.model, run.device, run.settings);
  run.model->eval();
  return run;
}

}  // namespace lathe::cli
