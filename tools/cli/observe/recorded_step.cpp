// One recorded step: the model and its batch are made as the commands that train make them.
#include "lathe/tools/cli/observe/recorded_step.h"

#include <memory>
#include <utility>

#include "lathe/core/printable.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/terminal.h"
#include "lathe/ops/losses/cross_entropy.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/fine_tuning.h"
#include "lathe/tools/cli/training/input.h"
#include "lathe/tools/cli/training/model_file.h"
#include "lathe/tools/cli/training/random_batch.h"
#include "lathe/tools/cli/training/reading_data.h"
#include "lathe/tools/cli/training/saved_run.h"

namespace lathe::cli {
namespace {

struct Batch {
  std::string text;
  ModelShape shape;
  Tensor x, y;
};

// The classes and channels of random numbers: those of the weights, where the call says neither.
ModelShape synthetic_shape(Settings& settings) {
  const ModelShape asked{.classes = settings.classes, .in_channels = settings.in_channels};
  const Settings usual;
  const bool is_open = asked.classes == usual.classes && asked.in_channels == usual.in_channels;
  if (settings.weights.empty() || !is_open) return asked;
  if (!settings.image_size) settings.image_size = 32;
  choose_stem(settings, settings.weights);
  const ModelShape shape = shape_in_file(settings, settings.weights);
  const auto is_in = [](const char* key, int64_t value) {  // as the flags
    const Setting& setting = *find_setting(key);
    return static_cast<double>(value) >= setting.min && static_cast<double>(value) <= setting.max;
  };
  return is_in("classes", shape.classes) && is_in("in-channels", shape.in_channels) ? shape : asked;
}

Batch synthetic_batch(Settings& settings, Device device) {
  const ModelShape shape = synthetic_shape(settings);
  const data::Batch made = random_batch(settings, shape, device, settings.batch_size.value_or(128));
  return {.text = "a batch of random numbers", .shape = shape, .x = made.x, .y = made.y};
}

Batch batch_of_dataset(const Settings& settings, Device device) {
  const auto images = open_dataset(settings, Part::kTrain, true);
  Input input = make_input(images, settings, device, true);
  return reading_data([&] {
    for (auto& [x, y] : input.batches()) {
      return Batch{.text = formatted("the first batch of {}", *settings.dataset),
                   .shape = {.classes = images->classes(), .in_channels = images->channels()},
                   .x = x,
                   .y = y};
    }
    throw UsageError(formatted("--dataset {}: has no training image", *settings.dataset));
  });
}

}  // namespace

report::RecordedStep record_step(Settings& settings, WeightsOfRun weights) {
  const bool is_of_run = !settings.run_dir.empty();
  const bool takes_weights_of_run =
      is_of_run && (weights == WeightsOfRun::kNeeded || !settings.model || has_weights(settings));
  const std::string file = takes_weights_of_run ? weights_of(settings) : settings.weights;
  if (takes_weights_of_run) take_carried_program(settings, file);
  const std::string chosen = choose_model(settings, file);
  if (!settings.model && is_of_run) fail_unknown_model(settings, file);
  if (!settings.model) settings.model = "resnet8";
  settings.weights = file;
  take_model_file(settings);
  const bool reads_data = settings.dataset.has_value();
  if (reads_data) complete(settings, look_around(settings));
  const Device device = prepare_compute(settings);
  manual_seed(static_cast<uint64_t>(settings.seed));
  const Batch batch =
      reads_data ? batch_of_dataset(settings, device) : synthetic_batch(settings, device);
  if (!settings.weights.empty()) {
    if (!settings.image_size) settings.image_size = batch.x.shape()[2];
    choose_stem(settings, settings.weights);
  }
  const auto model = make_model(settings, batch.shape);
  if (!settings.weights.empty()) {
    const std::vector<std::string> lines =
        load_weights(*model, settings.weights, {}, settings.weights_section);
    if (!chosen.empty()) write_stderr_line(printable(chosen));
    for (const std::string& line : lines) write_stderr_line(printable(line));  // names of the file
  }
  place_model(*model, device, settings);
  model->train();

  report::RecordedStep step = report::record_step(
      *model, [&] { return cross_entropy(scores_of(*model, batch.x, settings), batch.y); },
      settings.ranges);
  step.model = *settings.model;
  step.data = batch.text;
  step.input = batch.x.shape();
  return step;
}

}  // namespace lathe::cli
