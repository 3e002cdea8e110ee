// lathe train: the parts of a training, by the settings, and its folder. The loop: train/trainer.h.
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "lathe/core/ceil_div.h"
#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/function_ref.h"
#include "lathe/core/log.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/text/formatted.h"
#include "lathe/distributed/error.h"
#include "lathe/nn/cifarnet.h"
#include "lathe/nn/summary.h"
#include "lathe/tools/cli/commands/train_lines.h"
#include "lathe/tools/cli/commands/train_seeds.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/settings/config_file.h"
#include "lathe/tools/cli/settings/defaults.h"
#include "lathe/tools/cli/settings/models.h"
#include "lathe/tools/cli/settings/shared_config.h"
#include "lathe/tools/cli/signals.h"
#include "lathe/tools/cli/training/broken_files.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/datasets.h"
#include "lathe/tools/cli/training/environment.h"
#include "lathe/tools/cli/training/fine_tuning.h"
#include "lathe/tools/cli/training/folder_images.h"
#include "lathe/tools/cli/training/idle_flags.h"
#include "lathe/tools/cli/training/join_ranks.h"
#include "lathe/tools/cli/training/last_batch.h"
#include "lathe/tools/cli/training/memory_advice.h"
#include "lathe/tools/cli/training/model_file.h"
#include "lathe/tools/cli/training/model_input.h"
#include "lathe/tools/cli/training/optimizers.h"
#include "lathe/tools/cli/training/peak_forecast.h"
#include "lathe/tools/cli/training/program_run.h"
#include "lathe/tools/cli/training/resume.h"
#include "lathe/tools/cli/training/run_data.h"
#include "lathe/tools/cli/training/run_folder.h"
#include "lathe/tools/cli/training/run_profile.h"
#include "lathe/tools/cli/training/schedule.h"
#include "lathe/tools/cli/training/shared_start.h"
#include "lathe/tools/cli/training/training.h"
#include "lathe/train/checkpoint_writer.h"
#include "lathe/train/compute_stream.h"
#include "lathe/train/run_checkpoints.h"
#include "lathe/train/tune/find_batch.h"

namespace lathe::cli {

using train::Row;
namespace {

// Chooses dataset, model and stem, and downloads the data set if asked to. If nothing was given and
// the download fails, another choice is made. A run that goes on keeps its stem.
void choose(Settings& settings, const StartPoint& start, const SettingSources& call,
            const Ranks& ranks, Log& log) {
  // The names and shapes of weights tell the model, if nothing else does.
  const std::string weights = start.record ? start.file.string()
                              : start.from ? ""
                                           : settings.weights;
  const std::string model = choose_model(settings, weights);
  check_record(start, settings, call);
  take_program(settings, start, log);
  Machine machine = look_around(settings);
  const Settings asked = settings;
  if (settings.download) machine.cifar10_found = machine.fashion_mnist_found = true;
  std::string remark = choose_run(settings, machine);
  try {
    fetch_if_asked(settings);
  } catch (const FileError& e) {
    if (asked.dataset) throw CommandError(ExitCode::kData, e.message());
    log.warning(e.message());
    settings = asked;
    machine = look_around(settings);
    remark = choose_run(settings, machine);
  }
  if (!start.from && ranks.size() == 1) machine.folder_images = count_folder_images(settings);
  const Settings open = settings;
  complete(settings, machine);
  if (start.folder.empty() && *settings.dataset == "folder")
    refuse_among_classes(settings.data_root,
                         settings.run_dir.empty() ? kUsualRuns : settings.run_dir.c_str());
  if (!remark.empty()) log.choice(remark);
  if (!model.empty()) log.choice(model);
  if (const std::string chosen = folder_remark(open, settings, machine); !chosen.empty())
    log.choice(chosen);
  if (start.from && !settings.stem) settings.stem = start.before->stem;
  const std::string stem = choose_stem(settings, weights);
  if (!stem.empty()) log.choice(stem);
}

int64_t steps_in_epoch(const Settings& s, const data::DataLoader& loader) {
  return ceil_div(loader.size(), s.accumulate);
}

// The ranks have equally many of the images. A batch norm over all ranks sees more than one.
void check_batches(const Settings& of_rank, const ModelShape& shape, Device device, int64_t images,
                   int64_t steps, const Ranks& ranks) {
  if (of_rank.sync_batch_norm && ranks.size() > 1) return;
  check_last_batch(of_rank, shape, device, ceil_div(images, ranks.size()), steps);
}

// The settings for config.toml: without the place of a run, where it continues and stops, --dry-run
// and the scopes that look for faults, which must not carry over to the next run. Paths are
// absolute: the file is read from other directories.
std::string reusable_config(Settings settings) {
  settings.run_dir.clear();
  settings.dry_run = false;
  settings.resume.clear();
  settings.allow_changes = false;
  settings.stop_after = 0;
  settings.profile = false;
  settings.detect_anomaly = false;
  settings.sync = "off";
  return config_text(with_absolute_paths(std::move(settings)), kTrain);
}

void print_plan(const Settings& settings, const Output& out, int64_t steps, int64_t parameters) {
  out.verbatim(
      formatted("{}\n# {} steps, {} parameters", reusable_config(settings), steps, parameters));
  Row row;
  row.add("event", "plan").add("steps", steps).add("parameters", parameters);
  for (const Setting& setting : all_settings()) {
    if (kTrain.has(setting)) row.add(std::string(setting.key), value_text(settings, setting));
  }
  out.row(row);
}

// The folder to write to, locked against other processes from here on.
void open_folder(StartPoint& start, const Settings& settings, Log& log) {
  if (!start.folder.empty()) {
    if (start.from) return;
    train::set_metrics_aside(start.folder, [&](const std::string& text) { log.warning(text); });
    train::clean_run_folder(start.folder, -1);  // killed before its first checkpoint
    return;
  }
  const std::string name = *settings.dataset + "-" + title_of_model(*settings.model);
  start.folder = make_run_folder(settings.run_dir, name, today());
  start.lock = lock_run(start.folder);
}

// Resumes the trainer, or fails with the settings that do not fit.   → the step
int64_t resume(train::Trainer& trainer, const StartPoint& start, const Settings& settings,
               const Unchanged& same) try {
  return trainer.resume(*start.from, start.file.string(), same);
} catch (const ValueError& e) {
  fail_misfit(start, settings, trainer.misfits(*start.from), e.message());
}

// The steps of an epoch, one at least.
int64_t length_of_epoch(const Settings& settings, const Input& train, int64_t images) {
  const int64_t steps = steps_in_epoch(settings, train.loader);
  if (steps == 0) {
    throw UsageError(
        formatted("--drop-last leaves no batch: the {} images are fewer than --batch-size {}",
                  images, *settings.batch_size));
  }
  return steps;
}

// The first training images, normalised but without random changes.
Tensor first_images(const Settings& settings) {
  constexpr int64_t kImages = 5000;
  data::DataLoader loader(open_dataset(settings, Part::kTrain, false),
                          {.batch_size = kImages, .num_workers = 0});
  return (*loader.begin()).x;
}

// A new model, with the weights of a file if the run begins with some. CifarNet's first layer fits
// the images.
std::unique_ptr<nn::Module> make_start(const Settings& settings, const data::ImageDataset& images,
                                       const StartPoint& start, Log& log) {
  manual_seed(static_cast<uint64_t>(settings.seed));
  auto model =
      make_model(settings, {.classes = images.classes(), .in_channels = images.channels()});
  if (start.from) return model;
  if (settings.weights.empty()) {
    if (auto* const net = dynamic_cast<nn::CifarNet*>(model.get()))
      net->whiten_images(first_images(settings));
    return model;
  }
  try {
    for (const std::string& line :
         load_weights(*model, settings.weights, settings.new_head, settings.weights_section))
      log.line(line);
  } catch (const CommandError& e) {
    Settings open = settings;
    open.model.reset();
    const bool is_of_the_file = !choose_model(open, settings.weights).empty();
    if (start.settings.model || is_of_the_file) throw;
    throw CommandError(
        e.code(),
        formatted("{}; lathe chose {}, because no --model was given: name the model of the file",
                  e.what(), *settings.model));
  }
  return model;
}

// Brings the run's folder to the state in which training goes on from `step`. On another machine
// the folder that the first rank made may not be there.
void begin_run(train::Trainer& trainer, StartPoint& start, const Settings& settings, int64_t step,
               const Ranks& ranks, Log& log) {
  const bool goes_on = start.from && !start.folder.empty();
  if (ranks.is_first()) open_folder(start, settings, log);
  start.folder = ranks.from_first(start.folder.string());
  if (!ranks.is_first()) make_folders(start.folder);
  std::optional<double> kept;
  if (start.from && ranks.is_first())
    kept = train::go_back(start.folder, start.file, *start.from, step, settings.keep, "accuracy");
  trainer.use_folder(start.folder, goes_on, kept);
}

/// The files of a run besides metrics and checkpoints. Another rank than the first has a log alone.
class DescribeRun : public train::Observer {
 public:
  DescribeRun(const Settings& settings, const Ranks& ranks, Log& log)
      : settings_(settings), ranks_(ranks), log_(log) {}

  void on_start(train::Trainer& trainer) override {
    const std::filesystem::path& folder = trainer.folder();
    if (!ranks_.is_first()) return log_.open(folder / formatted("log-{}.txt", ranks_.rank()));
    write_file_atomic((folder / "config.toml").string(), reusable_config(settings_));
    write_file_atomic((folder / "env.json").string(), to_json(environment_row(), 2) + "\n");
    log_.open(folder / "log.txt");
  }

 private:
  const Settings& settings_;
  const Ranks& ranks_;
  Log& log_;
};

/// The forecast of the peak as text, for those who read it. Warns if that is more than there is.
std::string say_forecast(const Settings& settings, const ModelShape& shape, Device device,
                         int64_t steps, Log& log) {
  if (settings.quiet || settings.dry_run) return "";
  const auto forecast = forecast_peak(settings, shape, device, steps);
  const int64_t most = train::memory_for_tensors(device);
  if (forecast && most > 0) {
    const std::string warning = forecast_warning(*forecast, *settings.batch_size, most);
    if (!warning.empty()) log.warning(warning);
  }
  return forecast_text(forecast, *settings.batch_size);
}

/// Trains. Where memory of `device` was not enough, the error ends with advice for its peak; where
/// an image cannot be read, with how to go on.
ExitCode run_with_advice(Training& training, FunctionRef<std::string(int64_t peak)> memory,
                         const Settings& settings, Device device) {
  try {
    return with_image_advice(settings, [&] { return training.run(); });
  } catch (const OutOfMemoryError& e) {
    // Host memory of a run on a GPU.
    if (device.is_cuda() && e.message().find(concat(device)) == std::string::npos) throw;
    throw OutOfMemoryError(concat(e.message(), "; ", memory(training.trainer().memory_peak())));
  }
}

// Dataset, model and start, on all ranks as the first one has found them.
Settings choose_on_ranks(const Invocation& call, StartPoint& start, const Ranks& ranks, Log& log) {
  check_same_call(ranks, call.settings);
  Settings settings;
  ranks.wait_for_each([&] {
    start = ranks.is_first() ? find_start(call, log) : StartPoint{.settings = call.settings};
    settings = start.settings;
    if (ranks.is_first()) choose(settings, start, call.sources, ranks, log);
  });
  share_start(ranks, start, settings, call.sources);
  ranks.wait_for_each([&] {
    if (!ranks.is_first()) take_program(settings, start, log);
    if (settings.download && !ranks.is_first() && ranks.local_rank() == 0) fetch_if_asked(settings);
  });
  if (*settings.batch_size % ranks.size() != 0) ranks.part();  // all of them say so
  batch_of_rank(*settings.batch_size, ranks.size());
  return settings;
}

// What must be equal for the ranks to do the same steps.
void check_same_steps(const Ranks& ranks, const RunImages& images, Device device) {
  ranks.check_same("train: device and images",
                   formatted("device {}\ntraining images {}\nevaluated {}",
                             device.is_cuda() ? "cuda" : "cpu", images.training, images.evaluated));
}

// --device stays as it was given: the next run may have other GPUs.
Device prepare_rank(Settings& settings, const Ranks& ranks) {
  const std::string asked = std::exchange(settings.device, device_of_rank(ranks, settings.device));
  const Device device = prepare_compute(settings);
  settings.device = asked;
  return device;
}

void warn_of_flags(const Settings& settings, const SettingSources& sources, const Setup& setup,
                   Log& log) {
  if (settings.quiet) return;
  for (const std::string& remark : idle_flags(settings, sources, setup)) log.warning(remark);
}

// `also` observes the training, too; it may be null.
ExitCode train(const Invocation& call, const Ranks& ranks, const Output& out, Log& log,
               std::shared_ptr<train::Observer> also) {
  StartPoint start;
  Settings settings = choose_on_ranks(call, start, ranks, log);
  if (settings.profile) parse_profile_steps(settings.profile_steps);  // may be wrong: say so early
  const Device device = prepare_rank(settings, ranks);
  const train::ComputeStream on(
      device);  // from here on: what comes before the training shares its memory
  RunData data = with_image_advice(settings, [&] { return open_data(settings, device, ranks); });
  const RunImages images = data.images(settings);
  check_same_steps(ranks, images, device);
  const int64_t per_epoch = length_of_epoch(settings, data.train, images.training);
  const Unchanged same = share_changes(
      ranks,
      ranks.is_first() ? check_changes(start, settings, images, ranks.size(), log) : Unchanged());
  const int64_t all = length_of_run(start, same.batches, *settings.epochs, per_epoch);
  const int64_t steps = settings.max_steps > 0 ? std::min(settings.max_steps, all) : all;
  const Schedule schedule = make_schedule(settings, per_epoch, steps);
  const ModelShape shape{data.train_set->classes(), data.train_set->channels()};
  Settings of_rank = settings;  // what one rank computes
  of_rank.batch_size = batch_of_rank(*settings.batch_size, ranks.size());
  check_batches(of_rank, shape, device, images.training, steps, ranks);
  const std::string memory = say_forecast(of_rank, shape, device, steps, log);
  const auto model = make_start(settings, *data.train_set, start, log);
  if (ranks.is_first()) warn_of_probabilities(*model, settings, log);
  const int64_t parameters = nn::count_parameters(*model);
  place_model(*model, device, settings);
  Tuned tuned = tune(*model, settings);
  say_what_trains(*model, settings, tuned, log);
  const auto optimizer = make_optimizer(settings, *model);
  check_hyper_parameters(start, settings, *optimizer);
  warn_of_flags(settings, call.sources, {device, *model, ranks.size(), schedule, images}, log);
  RunSchedule lr(*optimizer, schedule);
  safetensors::Metadata about = describe_run(settings, images, ranks.size());
  about.merge(metadata_of(model_input(settings, *data.test_set)));
  about.merge(program_entry(*model));
  const auto files = std::make_shared<RunFilesCheck>();
  Training training({.settings = settings,
                     .model = *model,
                     .schedule = *lr,
                     .train = data.train,
                     .test = data.val,
                     .out = out,
                     .log = log,
                     .about = std::move(about),
                     .tuned = std::move(tuned),
                     .held_out = data.test ? &*data.test : nullptr,
                     .ranks = ranks,
                     .observers = {std::make_shared<DescribeRun>(settings, ranks, log), files}},
                    steps);
  train::Trainer& trainer = training.trainer();
  if (also) trainer.add(std::move(also));
  const int64_t step = start.from ? resume(trainer, start, settings, same) : 0;
  if (settings.dry_run) {  // all checks of the settings have been made
    log.say_choices();
    print_plan(settings, out, steps, parameters);
    return ExitCode::kDone;
  }

  const StopRequests signals;  // from here on a stop must leave the folder in order
  begin_run(trainer, start, settings, step, ranks, log);
  const RunCounts counts{parameters, images.training, per_epoch, steps, ranks.size(), step, memory};
  say_start(settings, data, start, same, counts, device, log);
  settings.program = of_rank.program = {};
  start.from.reset();  // the trainer has its values: a run that goes on holds no second state
  const ExitCode end = run_with_advice(
      training,
      [&](int64_t had) { return memory_advice(of_rank, shape, device, *model, *optimizer, had); },
      settings, device);
  if (ranks.is_first()) files->check(trainer.has_saved_best());
  return end;
}

}  // namespace

ExitCode run_train(const Invocation& call) {
  StopRequests::note_saves();  // it may come while the data is opened
  if (expected_ranks() > 1) check_shared_config(call.sources.config_path);
  const std::unique_ptr<distributed::ProcessGroup> group = join_ranks();
  const Ranks ranks(group.get());
  const Output out(call.settings.json, !ranks.is_first());
  const auto train_one = [&](const Invocation& one, std::shared_ptr<train::Observer> also) {
    Log log(call.settings.quiet || !ranks.is_first());
    set_log_handler([&log](LogLevel, std::string_view text) { log.warning(text); });
    const struct Restore {
      ~Restore() { set_log_handler({}); }
    } restore;
    return train(one, ranks, out, log, std::move(also));
  };
  try {
    if (call.settings.seeds > 1) return train_seeds(call, out, train_one);
    return train_one(call, nullptr);
  } catch (const distributed::DistributedError&) {
    throw;
  } catch (const Error& e) {
    ranks.abort(e.message());
    throw;
  } catch (const std::exception& e) {
    ranks.abort(e.what());
    throw;
  }
}

}  // namespace lathe::cli
