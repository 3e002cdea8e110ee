// lathe report: the page of a run, or of several side by side.
#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "lathe/core/error.h"
#include "lathe/core/files/file.h"
#include "lathe/core/text/formatted.h"
#include "lathe/data/images/image.h"
#include "lathe/ops/creation.h"
#include "lathe/tools/cli/observe/run_of_folder.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/replaceable.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/settings/config_file.h"
#include "lathe/tools/cli/signals.h"
#include "lathe/tools/cli/training/evaluate.h"
#include "lathe/tools/cli/training/input.h"
#include "lathe/tools/cli/training/program_run.h"
#include "lathe/tools/cli/training/saved_run.h"
#include "lathe/train/report/html.h"
#include "lathe/train/report/report_page.h"
#include "lathe/train/report/run_view.h"
#include "lathe/train/worst_mistakes.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kWorst = 24;  // mistakes that are shown

/// The settings of the run in `folder`, with those of the call.
Settings settings_of_run(const Invocation& call, const fs::path& folder) {
  SettingSources sources = call.sources;
  if (!is_run_of_program(folder)) {
    sources.config_path = (folder / "config.toml").string();
    sources.config = read_config(sources.config_path);
  }
  sources.of_finished_run = true;
  Settings settings = merge_settings(sources, kReport);
  settings.run_dir = folder.string();
  return settings;
}

/// The image as it is before the transform.
std::string png_of(const data::ImageDataset& images, int64_t index) {
  std::vector<uint8_t> pixels;
  const data::ImageSpec spec = images.load(index, pixels).spec;
  const Tensor image = empty({spec.channels, spec.height, spec.width}, {.dtype = kU8});
  std::ranges::copy(pixels, image.data<uint8_t>());
  return image::encode(image, ".png");
}

report::ReportEvaluation evaluate_run(const Settings& asked) {
  const SavedRun run = open_saved_run(asked);
  const auto classes = static_cast<size_t>(run.images->classes());
  train::WorstMistakes worst(kWorst);
  Input input = make_input(run.images, run.settings, run.device, false);
  const StopRequests signals;
  train::Progress progress(asked.progress, asked.quiet);
  const train::Evaluation result =
      evaluate(run, input, progress,
               [&](const Tensor& scores, const Tensor& labels) { worst.add(scores, labels); });
  if (!result.complete)
    throw CommandError(exit_code_of_signal(StopRequests::asked()), "stopped before the end");
  report::ReportEvaluation out{
      .about = formatted("{} {} images with the weights of {}", result.tally.count(), asked.split,
                         fs::path(weights_of(asked)).filename().string()),
      .loss = result.tally.loss(),
      .accuracy = result.tally.accuracy(),
      .classes = run.images->class_names(),
      .confusion = {},
      .worst = {}};
  for (size_t label = 0; label < classes; ++label) {
    std::vector<int64_t>& row = out.confusion.emplace_back();
    for (size_t p = 0; p < classes; ++p)
      row.push_back(result.tally.confusion(static_cast<int64_t>(label), static_cast<int64_t>(p)));
  }
  const std::vector<std::string> files = train::files_of(worst.found(), *run.images);
  for (size_t i = 0; i < worst.found().size(); ++i) {
    const train::Mistake& m = worst.found()[i];
    out.worst.push_back({.png = png_of(*run.images, m.index),
                         .label = out.classes[static_cast<size_t>(m.label)],
                         .predicted = out.classes[static_cast<size_t>(m.predicted)],
                         .probability = m.probability,
                         .loss = m.loss,
                         .index = m.index,
                         .file = files.empty() ? "" : files[i]});
  }
  return out;
}

/// The evaluation of the run. If it cannot be made, because the data or the weights are not there:
/// nothing, and a remark in `run`.
std::optional<report::ReportEvaluation> try_evaluation(const Invocation& call,
                                                       report::RunFiles& run) {
  if (!call.settings.evaluate) return std::nullopt;
  std::string reason;
  try {
    return evaluate_run(settings_of_run(call, run.folder));
  } catch (const CommandError& e) {
    // Not for a signal.
    if (e.code() != ExitCode::kData && e.code() != ExitCode::kUsage) throw;
    reason = e.what();
  } catch (const Error& e) {
    reason = e.message();
  }
  run.remarks.push_back(formatted("The run could not be evaluated: {}.", reason));
  return std::nullopt;
}

/// What there is to say of a run that is not at its end, a sentence; "" of others. A run's last row
/// is that of an evaluation.
std::string unfinished(const report::RunFiles& run) {
  if (run.metrics.empty()) return "";
  const report::MetricsPoint& last = run.metrics.back();
  if (report::activity_of(run).training)
    return formatted("This run is still training; the page shows its state at step {}.", last.step);
  const auto number = [&](const char* key) { return std::atoll(run.setting(key).c_str()); };
  const bool has_limit = std::strtod(run.setting("time-limit").c_str(), nullptr) > 0;
  const int64_t steps = number("max-steps"), epochs = number("epochs");
  const bool may_end_early = number("early-stopping") > 0 || has_limit;
  const bool is_at_end = last.epoch >= epochs || (steps > 0 && last.step >= steps);
  if (last.split != "train" && (is_at_end || may_end_early)) return "";
  return formatted(
      "This run stopped before its end, at step {} in epoch {} of {}. No process on this machine "
      "is training it.",
      last.step, last.epoch, epochs);
}

}  // namespace

ExitCode run_report(const Invocation& call) {
  const Output out(call.settings.json);
  std::vector<report::RunFiles> runs;
  for (const std::string& folder : call.words) {
    report::RunFiles& run = runs.emplace_back(run_of_folder(folder));
    if (std::string remark = unfinished(run); !remark.empty())
      run.remarks.push_back(std::move(remark));
  }
  const bool one = runs.size() == 1;
  std::string file = call.settings.output;
  if (file.empty()) file = one ? (runs[0].folder / "report.html").string() : "report.html";
  check_replaceable("--output", file, report::kPageBegin);
  const AtomicFile writable(file);
  std::string page;
  if (one) {
    const auto evaluation = try_evaluation(call, runs[0]);
    page = report::report_page(runs[0], evaluation ? &*evaluation : nullptr);
  } else {
    page = report::comparison_page(runs);
  }
  write_file_atomic(file, page);
  size_t remarks = 0;
  for (const report::RunFiles& run : runs) remarks += run.remarks.size();
  out.text(formatted("{}: {} bytes{}", file, page.size(),
                     remarks > 0 ? "; remarks stand at its top" : ""));
  Row row;
  row.add("event", "report").add("file", file).add("remarks", static_cast<int64_t>(remarks));
  out.row(row);
  return ExitCode::kDone;
}

}  // namespace lathe::cli
