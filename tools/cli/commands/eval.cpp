// lathe eval: the loss and accuracy of a trained model on a data set.
#include <unistd.h>

#include <cmath>

#include "lathe/core/files/file.h"
#include "lathe/core/printable.h"
#include "lathe/core/text/count_text.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/terminal.h"
#include "lathe/core/text/wrapping.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/replaceable.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/signals.h"
#include "lathe/tools/cli/training/broken_files.h"
#include "lathe/tools/cli/training/datasets.h"
#include "lathe/tools/cli/training/evaluate.h"
#include "lathe/tools/cli/training/folder_images.h"
#include "lathe/tools/cli/training/reading_data.h"
#include "lathe/tools/cli/training/saved_run.h"
#include "lathe/train/worst_mistakes.h"

namespace lathe::cli {

using train::Evaluation, train::Progress, train::Tally;
namespace {

constexpr int64_t kMistakesAsFiles = 16;  // unless --worst says how many

int64_t count_of(const Tally& tally, int64_t label, int64_t classes) {
  int64_t count = 0;
  for (int64_t p = 0; p < classes; ++p) count += tally.confusion(label, p);
  return count;
}

void print_classes(const Output& out, const Tally& tally, const std::vector<std::string>& names) {
  const auto classes = static_cast<int64_t>(names.size());
  for (int64_t c = 0; c < classes; ++c) {
    const int64_t count = count_of(tally, c, classes);
    const std::string& name = names[static_cast<size_t>(c)];
    const double accuracy =
        count > 0 ? static_cast<double>(tally.confusion(c, c)) / static_cast<double>(count) : 0;
    out.sentence(formatted("  {:<20} {:6.2f} % of {}", printable(name), 100 * accuracy, count));
    out.row(Row()
                .add("event", "class")
                .add("class", c)
                .add("name", name)
                .add("accuracy", accuracy)
                .add("images", count));
  }
}

// What has no room on a line begins the next one. The file is not parted at its spaces, because it
// may be copied, and a class only where it is wider than the terminal.
void print_mistake(const Output& out, const train::Mistake& m,
                   const std::vector<std::string>& names, const std::string& file) {
  const auto name = [&](int64_t number) { return printable(names[static_cast<size_t>(number)]); };
  std::vector<std::string> lines = {formatted("  image {}: {} taken for", m.index, name(m.label))};
  const auto add = [&](const std::string& part) {
    if (fits(lines.back() + part, terminal_width(STDOUT_FILENO)))
      lines.back() += part;
    else
      lines.push_back("   " + part);
  };
  add(formatted(" {} ({:.2f} %), loss {:.4f}{}", name(m.predicted), 100 * m.probability, m.loss,
                file.empty() ? "" : ","));
  if (!file.empty()) add(" " + printable(file));
  for (const std::string& line : lines) {
    if (&line == &lines.back() && !file.empty())
      out.verbatim(line);
    else
      out.sentence(line);
  }
}

void print_mistakes(const Output& out, const std::vector<train::Mistake>& mistakes,
                    const data::ImageDataset& images) {
  const std::vector<std::string>& names = images.class_names();
  const std::vector<std::string> files = train::files_of(mistakes, images);
  for (size_t i = 0; i < mistakes.size(); ++i) {
    const train::Mistake& m = mistakes[i];
    const std::string &label = names[static_cast<size_t>(m.label)],
                      &predicted = names[static_cast<size_t>(m.predicted)];
    print_mistake(out, m, names, files.empty() ? "" : shown_path(files[i]));
    Row row;
    row.add("event", "mistake")
        .add("index", m.index)
        .add("label", m.label)
        .add("predicted", m.predicted)
        .add("label_name", label)
        .add("predicted_name", predicted)
        .add("probability", m.probability)
        .add("loss", m.loss);
    if (!files.empty()) row.add("file", files[i]);
    out.row(row);
  }
}

std::string confusion_csv(const Tally& tally, const std::vector<std::string>& names) {
  Row header;
  header.add("label", 0);
  for (const std::string& name : names) header.add(name, 0);
  std::string text = csv_header(header) + "\n";
  for (size_t label = 0; label < names.size(); ++label) {
    Row row;
    row.add("label", names[label]);
    for (size_t p = 0; p < names.size(); ++p) {
      row.add(names[p], tally.confusion(static_cast<int64_t>(label), static_cast<int64_t>(p)));
    }
    text += csv_line(row) + "\n";
  }
  return text;
}

}  // namespace

ExitCode run_eval(const Invocation& call) {
  const Output out(call.settings.json);
  if (!call.settings.confusion.empty())
    check_replaceable("--confusion", call.settings.confusion, "label,");
  if (!call.settings.worst_dir.empty()) check_new_folder("--worst-dir", call.settings.worst_dir);
  const SavedRun run = open_saved_run(call.settings);
  const Settings& settings = run.settings;
  const bool as_files = !settings.worst_dir.empty();
  train::WorstMistakes worst(settings.worst == 0 && as_files ? kMistakesAsFiles : settings.worst);
  BatchObserver observer;
  if (settings.worst > 0 || as_files)
    observer = [&](const Tensor& scores, const Tensor& labels) { worst.add(scores, labels); };
  Input input = make_input(run.images, settings, run.device, false);
  const StopRequests signals;
  Progress progress(settings.progress, settings.quiet);
  const Evaluation result = reading_data([&] { return evaluate(run, input, progress, observer); });
  if (!result.complete)
    throw CommandError(exit_code_of_signal(StopRequests::asked()), "stopped before the end");
  Log log(settings.quiet);
  BrokenFiles broken({run.images.get()}, log);
  if (settings.skip_broken) broken.report();
  const Tally& tally = result.tally;
  const double rate = static_cast<double>(tally.count()) / result.seconds;
  out.row(Row()
              .add("event", "eval")
              .add("dataset", *settings.dataset)
              .add("split", settings.split)
              .add("images", tally.count())
              .add("loss", tally.loss())
              .add("accuracy", tally.accuracy())
              .add("top5", tally.top5())
              .add("images_per_second", rate)
              .add("broken_files", broken.count()));
  const bool has_more = run.images->classes() > 5;
  const std::string more = has_more ? formatted(", top-5 {:.2f} %", 100 * tally.top5()) : "";
  out.sentence(formatted("{} {}: {} images, loss {:.4f}, top-1 {:.2f} %{}, {} img/s",
                         *settings.dataset, settings.split, tally.count(),
                         without_sign_of_nan(tally.loss()), 100 * tally.accuracy(), more,
                         train::rate_text(rate)));
  if (!settings.quiet) print_classes(out, tally, run.images->class_names());
  print_mistakes(out, worst.found(), *run.images);
  if (!settings.confusion.empty()) {
    write_file_atomic(settings.confusion, confusion_csv(tally, run.images->class_names()));
    out.text(written_text(settings.confusion));
  }
  if (as_files) {
    train::write_mistakes(settings.worst_dir, worst.found(), *run.images);
    out.text(
        formatted("{}: {}", settings.worst_dir, count_text(std::ssize(worst.found()), "image")));
  }
  if (!std::isfinite(tally.loss())) {
    throw CommandError(
        ExitCode::kDiverged,
        formatted("the loss is {}: with these weights, the model computes no finite numbers",
                  number_text(tally.loss())));
  }
  return ExitCode::kDone;
}

}  // namespace lathe::cli
