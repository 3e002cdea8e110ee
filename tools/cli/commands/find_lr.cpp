// lathe find-lr: a few steps with a rising learning rate until the loss rises, to see which rate
// suits a model, a data set and an optimiser. Keeps only the numbers.
#include <cmath>

#include "lathe/core/files/file.h"
#include "lathe/core/random/generator.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/commands/found_setting.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/replaceable.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/settings/help.h"
#include "lathe/tools/cli/training/broken_files.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/fine_tuning.h"
#include "lathe/tools/cli/training/folder_images.h"
#include "lathe/tools/cli/training/input.h"
#include "lathe/tools/cli/training/last_batch.h"
#include "lathe/tools/cli/training/loss_scale.h"
#include "lathe/tools/cli/training/model_file.h"
#include "lathe/tools/cli/training/optimizers.h"
#include "lathe/tools/cli/training/reading_data.h"
#include "lathe/train/progress.h"
#include "lathe/train/tune/find_lr.h"

namespace lathe::cli {
namespace {

using train::LrRange;

constexpr int kPlotLines = 16, kBesidePlot = 11;  // columns of numbers at its left

const char* text_of(train::LrRemark remark) {
  switch (remark) {
    case train::LrRemark::kTooFewSteps:
      return "too few steps were made to suggest a learning rate: more --sweep-steps may help, or "
             "a "
             "lower --max-lr if the loss diverged";
    case train::LrRemark::kNoFall: return "the loss falls at no learning rate";
    case train::LrRemark::kMayBeChance:
      return "the loss falls by no more than its random fluctuation; more --sweep-steps may help";
    case train::LrRemark::kUnsteady:
      return "the curve is too noisy: its odd and its even steps do not suggest the same learning "
             "rate; more --sweep-steps may help";
    case train::LrRemark::kStillFalls:
      return "the loss still falls at the highest learning rate: try a higher --max-lr";
    case train::LrRemark::kNone: break;
  }
  return "";
}

// Refuses what LrRange refuses, by the names of the flags.
void check_range(const Settings& settings) {
  if (!(settings.min_lr > 0 && settings.min_lr < settings.max_lr)) {
    throw UsageError(formatted("--min-lr {} must be above 0 and below --max-lr {}",
                               number_text(settings.min_lr), number_text(settings.max_lr)));
  }
  if (!std::isfinite(settings.max_lr / settings.min_lr)) {
    throw UsageError(formatted("--max-lr {} divided by --min-lr {} is more than a double holds",
                               number_text(settings.max_lr), number_text(settings.min_lr)));
  }
  if (settings.sweep_steps < 2)
    throw UsageError(formatted("--sweep-steps {}: at least 2 are needed", settings.sweep_steps));
}

Row lr_range_row(const train::LrRangePoint& point, int64_t step) {
  return Row()
      .add("step", step)
      .add("lr", point.lr)
      .add("loss", point.loss)
      .add("smoothed_loss", point.smoothed);
}

// Makes training steps with the learning rates of the range, until that has seen enough.
LrRange sweep(const Settings& settings, nn::Module& model, Input& input,
              train::StatusLine& status) {
  const Frozen frozen = tune(model, settings).frozen;
  const auto optimizer = make_optimizer(settings, model);
  model.train();
  frozen.hold();
  const auto batches = input.for_training();
  const train::LrSearch search = train::find_lr(
      model, *optimizer, loss_of(model, settings), *batches,
      {.range = {.min_lr = settings.min_lr,
                 .max_lr = settings.max_lr,
                 .steps = settings.sweep_steps},
       .step = step_options(settings),
       .on_step = [&](const LrRange& range) {
         if (!status.is_due()) return;
         status.show([&](int, bool) {
           return formatted("step {}/{}  lr {:.2e}  loss {:.3f}", range.points().size(),
                            settings.sweep_steps, range.points().back().lr,
                            range.points().back().smoothed);
         });
       }});
  status.clear();
  fail_if_all_skipped(settings, search.skipped, search.steps);
  return search.range;
}

void print(const LrRange& range, const Settings& settings, const Output& out) {
  const train::LrSuggestion suggestion = range.suggestion();
  Row result;
  result.add("event", "done")
      .add("suggestion", suggestion.lr > 0 ? suggestion.lr : std::nan(""))  // nan: null
      .add("remark", text_of(suggestion.remark))
      .add("lowest", range.lowest().lr)
      .add("diverged", range.diverged())
      .add("optimizer", settings.optimizer);
  for (size_t i = 0; i < range.points().size(); ++i)
    out.row(lr_range_row(range.points()[i], static_cast<int64_t>(i)));
  out.row(result);
  if (const std::string plot = train::lr_plot(range, help_width() - kBesidePlot, kPlotLines);
      !plot.empty())
    out.text(plot);
  const char* const end = range.diverged() ? "it diverged" : "it did not diverge";
  if (suggestion.lr > 0) {
    out.sentence(
        formatted("suggestion: --lr {:.2g}, where the loss falls most steeply", suggestion.lr));
  } else {
    out.sentence(formatted("no suggestion: {}", text_of(suggestion.remark)));
  }
  out.sentence(formatted("the loss is lowest at {:.2g}; {}", range.lowest().lr, end));
  if (suggestion.lr > 0 && suggestion.remark != train::LrRemark::kNone)
    out.sentence(text_of(suggestion.remark));
}

void write_found(const LrRange& range, const FoundSetting& found, const Output& out) {
  const train::LrSuggestion suggestion = range.suggestion();
  if (!(suggestion.lr > 0)) return found.fail_without_value(text_of(suggestion.remark));
  if (const std::string said = found.write(formatted("{:.2g}", suggestion.lr)); !said.empty())
    out.sentence(said);
}

void write_csv(const std::string& path, const LrRange& range) {
  std::string text;
  for (size_t i = 0; i < range.points().size(); ++i) {
    const Row row = lr_range_row(range.points()[i], static_cast<int64_t>(i));
    if (i == 0) text += csv_header(row) + "\n";
    text += csv_line(row) + "\n";
  }
  write_file_atomic(path, text);
}

// Before the sweep: whether its files can be written.
void check_outputs(const Settings& settings) {
  if (!settings.csv.empty()) {
    check_replaceable("--csv", settings.csv, csv_header(lr_range_row({}, 0)) + "\n");
    const AtomicFile writable(settings.csv);
  }
  check_picture(settings.svg);
}

}  // namespace

ExitCode run_find_lr(const Invocation& call) {
  Settings settings = call.settings;
  const Output out(settings.json);
  Log log(settings.quiet);
  check_range(settings);
  check_outputs(settings);
  const FoundSetting found(settings.write_config, "lr");
  if (const std::string remark = choose_model(settings, settings.weights); !remark.empty())
    log.choice(remark);
  take_model_file(settings);
  Machine machine = look_around(settings);
  if (const std::string remark = choose_run(settings, machine); !remark.empty()) log.choice(remark);
  machine.folder_images = count_folder_images(settings);
  Settings open = settings;
  open.lr = settings.min_lr;  // these two are no choice of the search
  open.epochs = 1;
  complete(settings, machine);
  if (const std::string remark = folder_remark(open, settings, machine); !remark.empty())
    log.choice(remark);
  if (const std::string remark = choose_stem(settings, settings.weights); !remark.empty())
    log.choice(remark);
  settings.lr = settings.min_lr;
  const Device device = prepare_compute(settings);
  const auto images = open_dataset(settings, Part::kTrain, true);
  Input input = make_input(images, settings, device, true);
  if (input.loader.size() == 0) {
    throw UsageError(
        formatted("--drop-last leaves no batch: the {} images are fewer than --batch-size {}",
                  images->size(), *settings.batch_size));
  }
  const ModelShape shape{.classes = images->classes(), .in_channels = images->channels()};
  check_last_batch(settings, shape, device, images->size(), settings.sweep_steps);
  manual_seed(static_cast<uint64_t>(settings.seed));
  const auto model = make_model(settings, shape);
  warn_of_probabilities(*model, settings, log);
  if (!settings.weights.empty()) {
    for (const std::string& line :
         load_weights(*model, settings.weights, settings.new_head, settings.weights_section))
      log.line(line);
  }
  place_model(*model, device, settings);
  log.say_choices();
  train::StatusLine status(settings.progress, settings.quiet);
  BrokenFiles broken({images.get()}, log);
  const LrRange range =
      reading_data([&] { return sweep(settings, *model, input, status); });  // writes no file
  if (settings.skip_broken) broken.report();
  if (range.points().empty()) {
    throw CommandError(
        ExitCode::kDiverged,
        formatted("the first step, with a learning rate of {}, has a loss that is not finite",
                  settings.min_lr));
  }
  if (!settings.csv.empty()) write_csv(settings.csv, range);
  if (!settings.svg.empty()) write_file_atomic(settings.svg, train::lr_svg(range));
  print(range, settings, out);
  for (const std::string& file : {settings.csv, settings.svg}) {
    if (!file.empty()) out.text(written_text(file));
  }
  write_found(range, found, out);
  return ExitCode::kDone;
}

}  // namespace lathe::cli
