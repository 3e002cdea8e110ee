// lathe data verify: checks whether a data set is complete. A published one is compared with the
// official checksums; of a packed file or a folder of images every image is read.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "lathe/core/files/hash.h"
#include "lathe/core/printable.h"
#include "lathe/core/text/count_text.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/thread_pool.h"
#include "lathe/data/images/packed_images.h"
#include "lathe/data/images/verify.h"
#include "lathe/tools/cli/commands/named_dataset.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/command.h"
#include "lathe/tools/cli/settings/defaults.h"
#include "lathe/tools/cli/shell_word.h"
#include "lathe/tools/cli/training/datasets.h"
#include "lathe/tools/cli/training/folder_images.h"
#include "lathe/train/progress.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

const char* state_name(data::FileState state) {
  return state == data::FileState::kOk        ? "ok"
         : state == data::FileState::kDiffers ? "differs"
                                              : "missing";
}

bool is_published_name(const std::string& word) {
  const auto& sources = data::dataset_sources();
  return std::any_of(sources.begin(), sources.end(),
                     [&](const data::DatasetSource& source) { return source.name == word; });
}

ExitCode verify_published(const Invocation& call, const Output& out) {
  const data::DatasetSource& source = named_dataset(call.words[0]);
  const auto folder = data::require_dataset(source, call.settings.data_root);
  int64_t bad = 0;
  for (const data::FileReport& file : data::verify_dataset(source, folder)) {
    bad += file.state != data::FileState::kOk;
    out.text(formatted("{:<8} {}{}", state_name(file.state), file.name,
                       file.detail.empty() ? "" : ": " + file.detail));
    out.row(Row()
                .add("file", file.name)
                .add("state", state_name(file.state))
                .add("path", file.path.string())
                .add("detail", file.detail));
  }
  if (bad > 0) {
    throw CommandError(ExitCode::kCheckFailed,
                       formatted("{} in {}: {} missing or different from the official ones",
                                 source.title, folder.string(), count_text(bad, "file")));
  }
  return ExitCode::kDone;
}

// Reads one part and prints its classes, its broken images and what is no image.
// → the number of broken images
int64_t verify_part(data::ImageDataset& images, const char* part, const Settings& settings,
                    const Output& out) {
  // An image that an evaluation could not resize counts as broken.
  if (settings.dataset == "folder")
    images.set_transform(transform_of(model_input(settings, images)));
  if (const std::string left_out = data::left_out_text({&images}); !left_out.empty()) {
    out.text(formatted("{:<8} {}", part, printable(left_out)));
    out.row(Row().add("event", "left_out").add("part", part).add("detail", left_out));
  }
  train::StatusLine line(settings.progress, settings.quiet);
  const data::ImagesReport report = data::verify_images(images, [&](int64_t done) {
    if (!line.is_due()) return;
    line.show([&](int, bool) { return formatted("{}  {}/{}", part, done, images.size()); });
  });
  line.clear();
  for (const std::string& why : report.messages) {
    out.text("broken   " + printable(why));
    out.row(Row().add("event", "broken").add("part", part).add("detail", why));
  }
  for (size_t k = 0; k < report.whole.size(); ++k) {
    const std::string& name = images.class_names()[k];
    if (!settings.quiet)
      out.text(formatted("{:<8} {:<24} {:>9} images{}", part, printable(name), report.whole[k],
                         report.broken[k] > 0 ? formatted(", {} broken", report.broken[k]) : ""));
    out.row(Row()
                .add("event", "class")
                .add("part", part)
                .add("class", name)
                .add("images", report.whole[k])
                .add("broken", report.broken[k]));
  }
  out.text(formatted("{:<8} {} images, {} broken, SHA-256 {}", part, images.size(),
                     report.broken_images(), report.sha256));
  out.row(Row()
              .add("event", "verified")
              .add("part", part)
              .add("images", images.size())
              .add("broken", report.broken_images())
              .add("sha256", report.sha256));
  return report.broken_images();
}

// The parts of a packed file, those of a folder (ROOT/train, ROOT/val, ROOT/test), or the images of
// ROOT itself if it directly contains the classes.
ExitCode verify_images_of(const Invocation& call, bool is_file, const Output& out) try {
  Settings settings = call.settings;
  const fs::path root = call.words[0];
  settings.data_root = root.string();
  settings.dataset = is_file ? "packed" : "folder";
  if (!settings.image_size) settings.image_size = kFolderImageSize;
  if (settings.threads) set_num_threads(static_cast<int>(*settings.threads));
  int64_t broken = 0;
  if (!is_file && look_into(root).layout != FolderLayout::kParts) {
    broken = verify_part(*open_class_folders(root), "all", settings, out);
  } else {
    const std::pair<Part, const char*> parts[] = {
        {Part::kTrain, "train"}, {Part::kVal, "val"}, {Part::kTest, "test"}};
    std::vector<std::pair<std::shared_ptr<data::ImageDataset>, const char*>> opened;
    for (const auto& [part, name] : parts) {  // all are opened before one is read
      if (has_part(settings, part)) opened.emplace_back(open_all_images(settings, part), name);
    }
    for (const auto& [images, name] : opened) broken += verify_part(*images, name, settings, out);
  }
  if (is_file) {
    const std::string hash = sha256_hex_of_file(root.string());
    out.text(formatted("file     SHA-256 {}", hash));
    out.row(Row().add("event", "file").add("sha256", hash));
  }
  if (broken > 0)
    throw CommandError(ExitCode::kCheckFailed,
                       formatted("{} of {} {} broken", count_text(broken, "image"), root.string(),
                                 broken == 1 ? "is" : "are"));
  return ExitCode::kDone;
} catch (const DataError& e) {
  throw CommandError(ExitCode::kCheckFailed, e.message());
} catch (const FileError& e) {
  throw CommandError(ExitCode::kData, e.message());
}

}  // namespace

ExitCode run_data_verify(const Invocation& call) {
  const Output out(call.settings.json);
  const std::string& word = call.words[0];
  std::error_code error;
  const fs::file_status status = fs::status(word, error);
  if ((word == "folder" || word == "packed") && !fs::exists(status)) {
    const std::string& root = call.settings.data_root;
    throw UsageError(formatted("data verify {}: name the {} itself: lathe data verify {}", word,
                               word == "folder" ? "folder" : "file",
                               root.empty() ? "./pets" : shell_word(root)));
  }
  if (is_published_name(word)) return verify_published(call, out);
  if (fs::is_regular_file(status) || fs::is_directory(status))
    return verify_images_of(call, fs::is_regular_file(status), out);
  if (fs::exists(status))
    throw CommandError(ExitCode::kData,
                       formatted("{}: is neither a regular file nor a folder", word));
  const bool is_missing = status.type() == fs::file_type::not_found;
  if (is_missing && word.find_first_of("/.") == std::string::npos)  // no path, so a mistyped name
    return verify_published(call, out);
  throw CommandError(
      ExitCode::kData,
      formatted("{}: {}", word, is_missing ? "no such file or folder" : error.message()));
}

}  // namespace lathe::cli
