// lathe find-batch: the largest batch for which forward, loss, backward and update have memory.
// Sizes are tried; a failed try gives its memory back before the next.
#include <optional>
#include <string>

#include "lathe/core/format.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/text/count_text.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/commands/found_setting.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/datasets.h"
#include "lathe/tools/cli/training/model_file.h"
#include "lathe/tools/cli/training/random_batch.h"
#include "lathe/train/tune/find_batch.h"

namespace lathe::cli {
namespace {

constexpr double kMiB = 1 << 20;

size_t limit_of(const Settings& settings, Device device) {
  if (settings.memory_limit > 0) return static_cast<size_t>(settings.memory_limit) << 20;
  return train::default_memory_limit(device);
}

void print(int64_t batch, const std::optional<train::BatchTrial>& trial, const Output& out) {
  Row row;
  row.add("event", "try").add("batch_size", batch).add("fits", trial.has_value());
  if (trial) {
    row.add("images_per_second", trial->samples_per_second).add("peak_bytes", trial->peak_bytes);
    out.text(formatted("batch {:>6}  {:>9.1f} img/s  {:>9.1f} MiB", batch,
                       trial->samples_per_second, static_cast<double>(trial->peak_bytes) / kMiB));
  } else {
    out.text(formatted("batch {:>6}  does not fit", batch));
  }
  out.row(row);
}

void print_result(int64_t batch, const train::BatchTrial& fastest, size_t limit,
                  const Settings& settings, const Output& out) {
  out.row(Row()
              .add("event", "done")
              .add("batch_size", batch)
              .add("fastest_batch_size", fastest.batch)
              .add("images_per_second", fastest.samples_per_second)
              .add("memory_limit_bytes", static_cast<int64_t>(limit)));
  out.sentence(
      formatted("largest batch: {}{}{}; fastest: {} with {:.1f} img/s", batch,
                batch == settings.max_batch ? " (--max-batch; larger ones were not tried)" : "",
                limit > 0 ? formatted(" within {:.0f} MiB", static_cast<double>(limit) / kMiB) : "",
                fastest.batch, fastest.samples_per_second));
}

}  // namespace

ExitCode run_find_batch(const Invocation& call) {
  Settings settings = call.settings;
  const Output out(settings.json);
  if (!settings.model) settings.model = "resnet18";
  take_model_file(settings);
  settings.dataset = "synthetic";
  complete(settings, look_around(settings));
  const FoundSetting found(settings.write_config, "batch-size");
  const Device device = prepare_compute(settings);
  manual_seed(static_cast<uint64_t>(settings.seed));
  const size_t limit = limit_of(settings, device);

  out.sentence(formatted(
      "{}, images of {} x {}, on {} with {}; each row: batch, images per second, peak memory of "
      "tensors",
      *settings.model, *settings.image_size, *settings.image_size, concat(device),
      count_text(*settings.threads, "thread")));
  train::StepSetup setup = random_step_setup(settings);
  setup.options = {.amp = settings.amp, .recompute = settings.recompute};
  const train::FoundBatch search = train::find_batch(
      setup, device,
      {.most = settings.max_batch,
       .limit_bytes = limit,
       .on_trial = [&](int64_t batch, const auto& trial) { print(batch, trial, out); }});
  if (search.fastest.batch == 0) {
    if (search.no_memory.empty())
      throw UsageError(formatted("--max-batch 1: {}", search.needs_two));
    throw CommandError(
        ExitCode::kOutOfMemory,
        formatted("not even a batch of {} fits: {}",
                  search.needs_two.empty() ? "one image" : "two images", search.no_memory));
  }
  print_result(search.largest, search.fastest, limit, settings, out);
  if (const std::string said = found.write(std::to_string(search.fastest.batch)); !said.empty())
    out.sentence(said);
  return ExitCode::kDone;
}

}  // namespace lathe::cli
