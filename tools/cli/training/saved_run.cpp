// open_saved_run(): which file has the weights, and the settings of the run.
#include "lathe/tools/cli/training/saved_run.h"

#include <filesystem>
#include <utility>

#include "lathe/core/files/paths.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/defaults.h"
#include "lathe/tools/cli/settings/models.h"
#include "lathe/tools/cli/settings/settings_sources.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/datasets.h"
#include "lathe/tools/cli/training/fine_tuning.h"
#include "lathe/tools/cli/training/graph_file.h"
#include "lathe/tools/cli/training/inference_graph.h"
#include "lathe/tools/cli/training/model_file.h"
#include "lathe/tools/cli/training/reading_data.h"
#include "lathe/tools/cli/training/resume.h"

namespace lathe::cli {

namespace {

// best.safetensors of a folder, if missing last.safetensors; "" if it has neither. Where the best
// cannot be looked at, the last does not take its place.
std::string checkpoint_in(const std::filesystem::path& folder) {
  return reading_data([&] {
    for (const char* name : {"best.safetensors", "last.safetensors"}) {
      if (is_there(folder / name)) return (folder / name).string();
    }
    return std::string();
  });
}

// Takes from a checkpoint what neither the call nor a config file says of model and data set. Where
// the data set is of the run's kind, so are the settings that divide it or make it, where they have
// their defaults: divided otherwise, images that the model learnt from would be looked at as the
// test's. With --run-dir its config.toml has said all that, below what is given.
void add_what_file_says(Settings& settings, const std::string& file, Log& log) {
  const safetensors::Metadata about = reading_data([&] { return metadata_in(file); });
  SettingSources run;
  run.saved_name = file;
  if (const auto config = about.find(kConfigKey); config != about.end())
    run.saved_config = config->second;
  const Settings saved = merge_settings(run, kEval);
  const auto name = about.find("lathe.model");
  if (!settings.model) {
    settings.model = saved.model;
    const bool is_own = name != about.end() &&
                        (is_model_name(name->second) || about.contains(std::string(kProgramKey)));
    if (!settings.model && is_own) settings.model = name->second;
    if (!settings.model && is_model_file(file)) settings.model = file;
    if (!settings.stem) settings.stem = saved.stem;
  }
  if (!settings.image_size) settings.image_size = saved.image_size;
  const bool is_named = settings.dataset.has_value();
  if (is_named && (settings.dataset != saved.dataset || !settings.run_dir.empty())) return;
  settings.dataset = saved.dataset;
  if (settings.data_root.empty()) settings.data_root = saved.data_root;
  const Settings usual;
  if (settings.val_split == usual.val_split) settings.val_split = saved.val_split;
  if (settings.seed == usual.seed) settings.seed = saved.seed;
  if (is_named && settings.val_split > 0)
    log.line(formatted("the images are divided as in the training: --val-split {} --seed {}",
                       settings.val_split, settings.seed));
  if (settings.synthetic_size == usual.synthetic_size)
    settings.synthetic_size = saved.synthetic_size;
}

}  // namespace

void refuse_folder(const std::string& file) {
  if (!reading_data([&] { return is_folder(file); })) return;
  const std::string inside = checkpoint_in(file);
  throw CommandError(ExitCode::kData,
                     formatted("{}: is a folder{}", file,
                               inside.empty() ? "" : formatted("; {} is a checkpoint", inside)));
}

std::string weights_of(const Settings& settings) {
  if (!settings.weights.empty()) {
    refuse_folder(settings.weights);
    return settings.weights;
  }
  if (settings.run_dir.empty()) {
    if (settings.model && is_model_file(*settings.model)) return *settings.model;
    throw UsageError(
        "which model? Name a run with --run-dir, or weights with --weights. A checkpoint of lathe "
        "names its model; other weights need --model; a file as --model has its own weights");
  }
  if (const std::string file = checkpoint_in(settings.run_dir); !file.empty()) return file;
  throw CommandError(
      ExitCode::kData,
      formatted("{} holds neither best.safetensors nor last.safetensors", settings.run_dir));
}

bool has_weights(const Settings& settings) {
  return !settings.weights.empty() || !checkpoint_in(settings.run_dir).empty();
}

void fail_unknown_model(const Settings& settings, const std::string& file) {
  if (!settings.weights.empty() || settings.run_dir.empty())
    throw UsageError(
        formatted("{} does not say which model it is of; name that with --model", file));
  throw UsageError(
      formatted("{} is the run of a program, and only that program knows the model. Load {} in the "
                "program, or name the model here: --model NAME, FILE.pt2 or FILE.onnx",
                settings.run_dir, file));
}

SavedRun open_saved_run(const Settings& asked) {
  SavedRun run{.settings = asked};
  const std::string weights = weights_of(asked);
  Log log(asked.quiet);
  add_what_file_says(run.settings, weights, log);
  if (!run.settings.model) fail_unknown_model(asked, weights);
  take_carried_program(run.settings, weights);
  take_model_file(run.settings);
  if (!run.settings.dataset)
    throw UsageError(
        formatted("{} does not say which data set it is for; name that with --dataset", weights));
  complete(run.settings, look_around(run.settings));
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
  run.gives_probabilities = gives_probabilities(*run.model);
  if (!are_of_model_file(run.settings, weights)) {
    for (const std::string& line :
         load_weights(*run.model, weights, {}, run.settings.weights_section))
      log.line(line);
  }
  place_model(*run.model, run.device, run.settings);
  run.model->eval();
  run.model = with_views(for_inference(std::move(run.model), run.images->spec().fields[0].shape,
                                       run.device, run.settings, log),
                         run.settings);
  return run;
}

}  // namespace lathe::cli
