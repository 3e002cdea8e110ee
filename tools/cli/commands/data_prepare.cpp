// lathe data prepare: any data set as one file of decoded images.
#include <chrono>
#include <filesystem>
#include <memory>
#include <set>

#include "lathe/core/files/file.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/seconds_since.h"
#include "lathe/core/text/count_text.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/thread_pool.h"
#include "lathe/data/images/pack_images.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/replaceable.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/signals.h"
#include "lathe/tools/cli/training/datasets.h"
#include "lathe/tools/cli/training/folder_images.h"
#include "lathe/tools/cli/training/reading_data.h"
#include "lathe/train/progress.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

/// The images of a part; null if there are none.
std::shared_ptr<const data::ImageDataset> open_part(const Settings& settings, Part part) {
  return reading_data([&]() -> std::shared_ptr<const data::ImageDataset> {
    return has_part(settings, part) ? open_all_images(settings, part) : nullptr;
  });
}

/// Refuses to replace a file that is no packed file, or that is being read from.
void refuse_to_lose(const std::string& path, const Settings& settings) {
  const PathKind kind = path_kind(path);
  if (kind == PathKind::kNothing || kind == PathKind::kNowhere) return;
  if (settings.dataset == "packed" && is_same_file(path, settings.data_root))
    throw UsageError(
        formatted("data prepare reads its images from {}; name another file for the result", path));
  if (!data::is_packed_file(path)) {
    throw UsageError(formatted(
        "{} exists and is not a packed file, so data prepare does not replace it; name a new file",
        path));
  }
}

void end_if_asked() {
  if (StopRequests::asked() != 0)
    throw CommandError(exit_code_of_signal(StopRequests::asked()), "stopped; no file was written");
}

/// Appends one part, with its progress.   → images left out
int64_t pack_part(const Settings& settings, Part part, const data::ImageDataset& images,
                  data::PackedWriter& writer, Log& log) {
  train::StatusLine line(settings.progress, settings.quiet);
  const auto began = std::chrono::steady_clock::now();
  const char* name = part == Part::kTrain ? "train" : "test";
  data::PackOptions options{.side = settings.image_size.value_or(0),
                            .skip_broken = settings.skip_broken};
  options.progress = [&](int64_t done) {
    end_if_asked();
    if (!line.is_due()) return;
    line.show([&](int, bool) {
      return formatted("{}  {}/{} images  {} img/s", name, done, images.size(),
                       train::rate_text(static_cast<double>(done) / seconds_since(began)));
    });
  };
  const auto broken = data::pack_images(images, writer, options);
  line.clear();
  for (const std::string& why : broken) log.warning("left out: " + why);
  return static_cast<int64_t>(broken.size());
}

/// Names the classes of which no training image was packed.
void warn_of_lost_classes(const data::ImageDataset& train, const data::PackedWriter& writer,
                          Log& log) {
  std::set<int64_t> lost;
  for (int64_t i = 0; i < train.size(); ++i)
    if (writer.class_sizes()[static_cast<size_t>(train.label(i))] == 0) lost.insert(train.label(i));
  for (const int64_t label : lost) {
    log.warning(formatted("class {}: none of its training images could be read",
                          train.class_names()[static_cast<size_t>(label)]));
  }
}

}  // namespace

ExitCode run_data_prepare(const Invocation& call) {
  Settings settings = call.settings;
  const Output out(settings.json);
  Log log(settings.quiet);
  const std::string& path = call.words[0];
  if (!settings.dataset)
    throw UsageError("data prepare: which images? name them with --dataset and --data-root");
  refuse_to_lose(path, settings);
  sweep_beside(path);
  if (settings.threads) set_num_threads(static_cast<int>(*settings.threads));

  const auto train = open_part(settings, Part::kTrain), test = open_part(settings, Part::kTest);
  if (has_part(settings, Part::kVal))
    log.warning(
        formatted("the images of {} are left out: a packed file has training and test images only; "
                  "train on it with --val-split 0.1",
                  look_into(settings.data_root).val.string()));
  const data::ImageDataset& one = train ? *train : *test;
  const std::string left_out = data::left_out_text({&one, test ? test.get() : &one});
  if (!left_out.empty()) log.warning(left_out);
  const StopRequests signals;
  data::PackedWriter writer(path, {.channels = one.stored_spec().channels,
                                   .class_names = one.class_names(),
                                   .mean = one.mean(),
                                   .std = one.std()});
  int64_t broken = 0;
  if (train) {
    broken += pack_part(settings, Part::kTrain, *train, writer, log);
    warn_of_lost_classes(*train, writer, log);
  }
  const int64_t train_images = writer.size();
  writer.begin_test();
  if (test) broken += pack_part(settings, Part::kTest, *test, writer, log);
  const int64_t test_images = writer.size() - train_images;
  if (writer.size() == 0)
    throw CommandError(ExitCode::kData, formatted("none of {} images can be read", broken));
  writer.finish();
  end_if_asked();
  writer.commit();
  const int64_t bytes = InputFile(path).size();
  out.row(Row()
              .add("event", "prepared")
              .add("file", path)
              .add("train_images", train_images)
              .add("test_images", test_images)
              .add("classes", one.classes())
              .add("broken_files", broken)
              .add("bytes", bytes));
  out.sentence(
      formatted("{}: {} images for training, {} for testing, {} classes, {:.1f} MB{}", path,
                train_images, test_images, one.classes(), static_cast<double>(bytes) / 1e6,
                broken > 0 ? formatted("; {} left out", count_text(broken, "broken file")) : ""));
  return ExitCode::kDone;
}

}  // namespace lathe::cli
