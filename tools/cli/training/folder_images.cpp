// open_folder() and what is said with names of flags. Contract: folder_images.h.
#include "lathe/tools/cli/training/folder_images.h"

#include "lathe/core/error.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/settings/defaults.h"
#include "lathe/tools/cli/training/reading_data.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void fail_layout(const fs::path& root, const ImageFolders& found) {
  if (!found.problem.empty()) {
    LATHE_FAIL(DataError, found.problem, found.below.empty() ? "" : ": name it with --data-root");
  }
  LATHE_FAIL(DataError, data::wanted_layout(root),
             found.layout == FolderLayout::kOther ? "" : way_without_test_images());
}

}  // namespace

void refuse_among_classes(const fs::path& root, const fs::path& run_folder) {
  if (root.empty()) return;
  const ImageFolders found = reading_data([&] { return look_into(root); });
  if (found.layout <= FolderLayout::kOther) return;
  const bool is_parts = found.layout == FolderLayout::kParts;
  for (const fs::path& part : {is_parts ? found.train : root, found.val, found.test}) {
    if (part.empty()) continue;
    std::error_code error;
    const fs::path classes = fs::weakly_canonical(fs::absolute(part, error), error);
    const fs::path inside =
        fs::weakly_canonical(fs::absolute(run_folder, error), error).lexically_relative(classes);
    // Classes are the folders themselves, without hidden ones.
    if (error || inside.empty() || inside.begin()->string().starts_with('.')) continue;
    throw UsageError(formatted(
        "--run-dir: {} lies in {}, each folder of which is a class; name a folder elsewhere",
        run_folder.string(), classes.string()));
  }
}

std::string way_without_test_images() {
  return "; --val-split 0.2 takes a fifth of the images for the test, and a fifth of the others to "
         "choose the best by";
}

std::shared_ptr<data::ImageDataset> open_folder(const Settings& settings, Part part,
                                                data::BrokenImage broken) {
  const fs::path root = settings.data_root;
  if (root.empty())
    throw UsageError(
        "--dataset folder: name it with --data-root DIR; DIR/train and DIR/test (or DIR/val) hold "
        "one folder per class");
  const ImageFolders found = look_into(root);
  if (found.layout <= FolderLayout::kOther || (part == Part::kTest && found.tests().empty()))
    fail_layout(root, found);
  const bool is_divided = part == Part::kVal && settings.val_split > 0;
  return data::open_image_folder(root, found, is_divided ? Part::kTrain : part, {.broken = broken});
}

int64_t count_folder_images(const Settings& settings) try {
  if (settings.dataset != "folder") return 0;
  const ImageFolders found = look_into(settings.data_root);
  if (found.layout <= FolderLayout::kOther) return 0;
  const bool has_parts = found.layout == FolderLayout::kParts;
  const fs::path root = has_parts ? found.train : fs::path(settings.data_root);
  // What --val-split leaves, and the test part that it takes where there is none.
  const double left =
      (1 - settings.val_split) * (found.tests().empty() ? 1 - settings.val_split : 1);
  int64_t images = 0;
  const auto part = [&] { return static_cast<int64_t>(static_cast<double>(images) * left); };
  for (const auto& entry :
       fs::recursive_directory_iterator(root, fs::directory_options::follow_directory_symlink)) {
    if (data::is_image_name(entry.path().native())) ++images;
    if (part() >= kMostCountedImages) return kMostCountedImages;
  }
  return part();
} catch (const std::exception&) {  // opening the images says what is wrong
  return 0;
}

std::string shown_path(const std::string& file) {
  std::error_code error;
  const fs::path here = fs::current_path(error);
  const fs::path below = error ? fs::path() : fs::path(file).lexically_relative(here);
  return below.empty() || *below.begin() == ".." ? file : below.string();
}

}  // namespace lathe::cli
