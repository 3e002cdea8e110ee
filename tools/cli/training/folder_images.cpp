// open_folder() and what is said with names of flags. Contract: folder_images.h.
#include "lathe/tools/cli/training/folder_images.h"

#include <algorithm>
#include <cmath>

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

/// The images in a class folder and below it, without hidden files and folders; more than `most`
/// are not counted.
static int64_t count_images(const fs::path& folder, int64_t most) {
  int64_t images = 0;
  fs::recursive_directory_iterator entry(folder, fs::directory_options::follow_directory_symlink);
  for (; entry != fs::recursive_directory_iterator() && images < most; ++entry) {
    if (entry->path().filename().native().starts_with('.')) {
      entry.disable_recursion_pending();
    } else if (data::is_image_name(entry->path().native())) {
      ++images;
    }
  }
  return images;
}

int64_t count_folder_images(const Settings& settings) try {
  if (settings.dataset != "folder") return 0;
  const ImageFolders found = look_into(settings.data_root);
  if (found.layout <= FolderLayout::kOther) return 0;
  const bool has_parts = found.layout == FolderLayout::kParts;
  const fs::path root = has_parts ? found.train : fs::path(settings.data_root);
  // What is left by --val-split, which also takes the test part where there is none.
  const auto left = [&](int64_t images) {
    for (int k = found.tests().empty() ? 2 : 1; k > 0; --k)
      images -= std::llround(settings.val_split * static_cast<double>(images));
    return std::min(images, kMostCountedImages);
  };
  int64_t images = 0;
  for (const auto& entry : fs::directory_iterator(root)) {
    if (entry.path().filename().native().starts_with('.') || !entry.is_directory()) continue;
    images += count_images(entry.path(), 4 * kMostCountedImages);
    if (left(images) == kMostCountedImages) break;
  }
  return left(images);
} catch (const Error&) {  // opening the images meets the same error, and says it
  return 0;
} catch (const fs::filesystem_error&) {
  return 0;
}

std::string shown_path(const std::string& file) {
  std::error_code error;
  const fs::path here = fs::current_path(error);
  const fs::path below = error ? fs::path() : fs::path(file).lexically_relative(here);
  return below.empty() || *below.begin() == ".." ? file : below.string();
}

}  // namespace lathe::cli
