// lathe predict: a trained model's classes for single images.
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "lathe/autograd/grad_mode.h"
#include "lathe/core/format.h"
#include "lathe/core/printable.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/terminal.h"
#include "lathe/core/text/wrapping.h"
#include "lathe/data/batch.h"
#include "lathe/ops/softmax.h"
#include "lathe/tools/cli/commands/predict_files.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/parse_value.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/training/broken_files.h"
#include "lathe/tools/cli/training/compute.h"
#include "lathe/tools/cli/training/folder_images.h"
#include "lathe/tools/cli/training/reading_data.h"
#include "lathe/tools/cli/training/saved_run.h"

namespace lathe::cli {
namespace {

// "0:16" → 0 … 15, "7" → 7. The rows that --index has by itself end where the images end.
std::vector<int64_t> parse_rows(const std::string& asked, int64_t size) {
  if (size == 0) throw CommandError(ExitCode::kData, "this part of the data set has no images");
  const bool by_itself = asked == Settings().index;
  const std::string text = by_itself ? formatted("0:{}", std::min<int64_t>(size, 16)) : asked;
  const size_t colon = text.find(':');
  const int64_t first = parse_integer("--index", text.substr(0, colon), 0, size - 1);
  const int64_t end = colon == std::string::npos
                          ? first + 1
                          : parse_integer("--index", text.substr(colon + 1), first + 1, size);
  std::vector<int64_t> rows(static_cast<size_t>(end - first));
  std::iota(rows.begin(), rows.end(), first);
  return rows;
}

// The width of a column of classes: that of the longest name, as far as there is room.
size_t column_of(const std::vector<std::string>& names, int width) {
  constexpr int kOthers = 29;  // columns: index, probability, "  wrong", and the space between
  constexpr size_t kMost = 20, kLeast = std::string_view("predicted").size();
  size_t columns = kLeast;
  for (const std::string& name : names) columns = std::max(columns, columns_of(printable(name)));
  const auto room = static_cast<size_t>(std::max((width - kOthers) / 2, 0));
  return std::min(columns, width == 0 ? kMost : std::clamp(room, kLeast, kMost));
}

/// A line of the table, or several where it is too wide: the file has one of its own, and the label
/// where the names are long.
class Lines {
 public:
  Lines(const std::vector<std::string>& names, int width)
      : column_(column_of(names, width)), width_(width) {}

  std::string heading() const {
    return formatted("{:>7}  {:<{}} {:<{}} {}", "index", "label", column_, "predicted", column_,
                     "probability");
  }
  void print(const Output& out, int64_t index, const std::string& label,
             const std::string& predicted, double probability, bool is_right,
             const std::string& file) const {
    const std::string rest = formatted("{:<{}} {:11.4f}{}", printable(predicted), column_,
                                       probability, is_right ? "" : "  wrong");
    std::string line = formatted("{:>7}  {:<{}} ", index, printable(label), column_);
    line = fits(line + rest, width_)
               ? line + rest
               : formatted("{:>7}  {}\n{:9}{}", index, printable(label), "", rest);
    if (file.empty()) return out.text(line);
    constexpr size_t kWrong = 7;
    const std::string gap(is_right ? kWrong + 2 : 2, ' ');
    const bool is_one_line = line.find('\n') == line.npos && fits(concat(line, gap, file), width_);
    if (is_one_line) return out.text(concat(line, gap, file));
    out.text(line);
    out.verbatim(formatted("{:9}{}", "", file));  // not parted at its spaces: it may be copied
  }

 private:
  size_t column_;
  int width_;
};

void print_rows(const Output& out, const Lines& lines, const SavedRun& run,
                const std::vector<int64_t>& rows, BrokenFiles& broken) {
  const data::Batch batch =
      reading_data([&] { return data::read_batch(*run.images, rows).to(run.device); });
  if (run.settings.skip_broken) broken.report();  // each was replaced by the next image
  const Tensor scores = scores_of(*run.model, batch.x, run.settings);
  const std::vector<float> probabilities =
      (run.gives_probabilities ? scores : softmax(scores, 1)).to_vector<float>();
  const auto classes = static_cast<size_t>(run.images->classes());
  const auto& names = run.images->class_names();
  const std::vector<std::string> files = data::files_of(*run.images, rows);
  for (size_t i = 0; i < rows.size(); ++i) {
    const auto row = probabilities.begin() + static_cast<std::ptrdiff_t>(i * classes);
    const auto best = std::max_element(row, row + static_cast<std::ptrdiff_t>(classes));
    if (!std::isfinite(*best)) {
      throw CommandError(ExitCode::kDiverged,
                         formatted("image {}: the highest probability is {}: with these weights, "
                                   "the model computes no finite numbers",
                                   rows[i], number_text(*best)));
    }
    const auto predicted = static_cast<size_t>(best - row);
    const auto label = static_cast<size_t>(run.images->label(rows[i]));
    lines.print(out, rows[i], names[label], names[predicted], *best, label == predicted,
                files.empty() ? "" : printable(shown_path(files[i])));
    Row fields;
    fields.add("index", rows[i])
        .add("label", static_cast<int64_t>(label))
        .add("predicted", static_cast<int64_t>(predicted))
        .add("probability", static_cast<double>(*best))
        .add("label_name", names[label])
        .add("predicted_name", names[predicted]);
    if (!files.empty()) fields.add("file", files[i]);
    out.row(fields);
  }
}

}  // namespace

ExitCode run_predict(const Invocation& call) {
  if (!call.words.empty()) return predict_files(call);
  for (const char* key : {"top", "format"}) {
    if (call.sources.flags.contains(key))
      throw UsageError(
          formatted("--{} is for image files: name some, or - for a list on stdin", key));
  }
  const Output out(call.settings.json);
  const SavedRun run = open_saved_run(call.settings);
  const std::vector<int64_t> rows = parse_rows(run.settings.index, run.images->size());
  const NoGrad no_grad;
  Log log(run.settings.quiet);
  BrokenFiles broken({run.images.get()}, log);
  const Lines lines(run.images->class_names(), terminal_width(STDOUT_FILENO));
  out.text(lines.heading());
  const auto batch = static_cast<size_t>(*run.settings.batch_size);
  for (size_t begin = 0; begin < rows.size(); begin += batch) {
    const auto first = rows.begin() + static_cast<std::ptrdiff_t>(begin);
    const auto last =
        rows.begin() + static_cast<std::ptrdiff_t>(std::min(begin + batch, rows.size()));
    print_rows(out, lines, run, {first, last}, broken);
  }
  return ExitCode::kDone;
}

}  // namespace lathe::cli
