// lathe find-workers: how many threads should read batches; several numbers are timed.
#include <algorithm>
#include <vector>

#include "lathe/core/text/formatted.h"
#include "lathe/core/thread_pool.h"
#include "lathe/tools/cli/commands/bench.h"
#include "lathe/tools/cli/commands/found_setting.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/training/broken_files.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/datasets.h"
#include "lathe/tools/cli/training/folder_images.h"
#include "lathe/tools/cli/training/input.h"
#include "lathe/tools/cli/training/reading_data.h"
#include "lathe/train/progress.h"

namespace lathe::cli {
namespace {

// A smaller number of threads is suggested if it reaches this part of the fastest.
constexpr double kGoodEnough = 0.95;

struct WorkersTrial {
  int64_t workers;
  double images_per_second;
};

/// 0, 1, 2, 4, … and as many as there are processors.
std::vector<int64_t> counts_to_try() {
  std::vector<int64_t> counts = {0};
  const int64_t most = usable_cpus();
  for (int64_t n = 1; n < most; n *= 2) counts.push_back(n);
  counts.push_back(most);
  return counts;
}

// Times the loader that training on `device` has.
WorkersTrial time_workers(const std::shared_ptr<data::ImageDataset>& images, Settings settings,
                          Device device, int64_t workers) {
  settings.workers = workers;
  Input input = make_input(images, settings, device, true);
  data::DataLoader& loader = input.loader;
  if (loader.size() == 0) {
    throw UsageError(
        formatted("--drop-last leaves no batch: the {} images are fewer than --batch-size {}",
                  images->size(), *settings.batch_size));
  }
  int64_t read = 0, calls = 0;  // the last batch of an epoch may be short
  const Timing timing = reading_data([&] {
    auto batches = loader.begin();
    return measure(
        [&] {
          ++batches;
          if (batches == loader.end()) batches = loader.begin();
          read += batches->size();
          ++calls;
        },
        {.warm_up_seconds = 0.2, .window_seconds = 0.1, .windows = 7});
  });
  const double images_per_batch = static_cast<double>(read) / static_cast<double>(calls);
  return {workers, images_per_batch / timing.median};
}

}  // namespace

ExitCode run_find_workers(const Invocation& call) {
  Settings settings = call.settings;
  const Output out(settings.json);
  if (!settings.dataset) settings.dataset = "synthetic";
  if (!settings.model) settings.model = "resnet8";
  Machine machine = look_around(settings);
  machine.folder_images = count_folder_images(settings);
  complete(settings, machine);
  refuse_resident_images(settings);
  const FoundSetting found(settings.write_config, "workers");
  const Device device = prepare_compute(settings);
  const auto images = open_dataset(settings, Part::kTrain, true);
  const auto transform = images->transform();  // each trial takes it out of `images`
  std::vector<WorkersTrial> trials;
  out.sentence(formatted("{} ({}), batch {}, {} processors", *settings.dataset, *settings.augment,
                         *settings.batch_size, usable_cpus()));
  for (const int64_t workers : counts_to_try()) {
    images->set_transform(transform);
    const WorkersTrial trial = trials.emplace_back(time_workers(images, settings, device, workers));
    out.row(Row()
                .add("event", "trial")
                .add("workers", trial.workers)
                .add("images_per_second", trial.images_per_second));
    out.text(formatted("{:4} worker{}  {:>9} img/s", trial.workers, trial.workers == 1 ? " " : "s",
                       train::rate_text(trial.images_per_second)));
  }
  Log log(settings.quiet);
  BrokenFiles broken({images.get()}, log);
  broken.report();
  const auto slower = [](const WorkersTrial& a, const WorkersTrial& b) {
    return a.images_per_second < b.images_per_second;
  };
  const double best = std::max_element(trials.begin(), trials.end(), slower)->images_per_second;
  const WorkersTrial chosen = *std::find_if(
      trials.begin(), trials.end(),
      [&](const WorkersTrial& trial) { return trial.images_per_second >= kGoodEnough * best; });
  out.row(Row()
              .add("event", "done")
              .add("workers", chosen.workers)
              .add("images_per_second", chosen.images_per_second)
              .add("broken_files", broken.count()));
  out.sentence(
      formatted("--workers {} is enough: {} img/s, {:.0f} % of the fastest; training that computes "
                "on the same processors slows reading down",
                chosen.workers, train::rate_text(chosen.images_per_second),
                100 * chosen.images_per_second / best));
  if (const std::string said = found.write(std::to_string(chosen.workers)); !said.empty())
    out.sentence(said);
  return ExitCode::kDone;
}

}  // namespace lathe::cli
