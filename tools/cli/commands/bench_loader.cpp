// lathe bench loader: epochs of batches as training reads them, but without training.

#include "lathe/core/text/count_text.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/commands/bench.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/training/broken_files.h"
#include "lathe/tools/cli/training/datasets.h"
#include "lathe/tools/cli/training/folder_images.h"
#include "lathe/tools/cli/training/input.h"
#include "lathe/tools/cli/training/reading_data.h"

namespace lathe::cli {

ExitCode run_bench_loader(const Invocation& call) {
  Settings settings = call.settings;
  const Output out(settings.json);
  if (!settings.dataset) settings.dataset = "synthetic";
  if (!settings.model) settings.model = "resnet8";
  Machine machine = look_around(settings);
  machine.folder_images = count_folder_images(settings);
  complete(settings, machine);
  refuse_resident_images(settings);
  const auto images = open_dataset(settings, Part::kTrain, true);
  data::DataLoader loader = make_loader(images, settings, true);
  if (loader.size() == 0) {
    throw UsageError(
        formatted("--drop-last leaves no batch: the {} images are fewer than --batch-size {}",
                  images->size(), *settings.batch_size));
  }
  // One call reads one batch; the last one of an epoch may be short. Epochs follow each other
  // without a pause.
  int64_t read = 0, calls = 0;
  const Timing timing = reading_data([&] {
    auto batches = loader.begin();
    const auto next = [&] {
      ++batches;
      if (batches == loader.end()) batches = loader.begin();
      read += batches->size();
      ++calls;
    };
    return measure(next, lasting(settings.seconds, {}));
  });
  Log log(settings.quiet);
  BrokenFiles broken({images.get()}, log);
  broken.report();
  const double batch = static_cast<double>(read) / static_cast<double>(calls);
  Row row;
  row.add("bench", "loader")
      .add("dataset", *settings.dataset)
      .add("augment", *settings.augment)
      .add("batch_size", *settings.batch_size)
      .add("data_cache", *settings.data_cache)
      .add("workers", *settings.workers)
      .add("broken_files", broken.count());
  out.row(add_timing(row, timing, "images", batch));
  out.text(formatted("{} ({}), batch {}, {}: {:.0f} img/s", *settings.dataset, *settings.augment,
                     *settings.batch_size, count_text(*settings.workers, "worker"),
                     batch / timing.median));
  return ExitCode::kDone;
}

}  // namespace lathe::cli
