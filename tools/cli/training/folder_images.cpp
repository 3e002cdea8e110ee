// layout_of(), open_folder() and their errors.
#include "lathe/tools/cli/training/folder_images.h"

#include <algorithm>
#include <set>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/data/images/cached_images.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/formatted.h"
#include "lathe/tools/cli/small_letters.h"

namespace lathe::cli {
namespace {

namespace fs = std::filesystem;

bool is_folder(const fs::path& path) {
  std::error_code missing;
  return fs::is_directory(path, missing);
}

/// The names of the folders in a folder, sorted, without hidden ones.
/// `error`: why they could not be listed.
std::vector<std::string> folders_in(const fs::path& root, std::error_code& error) {
  std::vector<std::string> names;
  for (fs::directory_iterator at(root, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with('.') && is_folder(at->path())) names.push_back(name);
  }
  std::ranges::sort(names);
  return names;
}

bool holds_image(const fs::path& folder) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string kind = in_small_letters(at->path().extension().string());
    if (kind == ".jpg" || kind == ".jpeg" || kind == ".png") return true;
  }
  return false;
}

/// What other programs call the parts. As classes they would be a mistake.
bool is_name_of_part(const std::string& folder) {
  constexpr std::string_view kNames[] = {"train", "training", "test",       "testing",
                                         "val",   "valid",    "validation", "eval"};
  return std::ranges::find(kNames, in_small_letters(folder)) != std::end(kNames);
}

[[noreturn]] void fail_layout(const fs::path& root) {
  std::error_code error;
  std::vector<std::string> folders = folders_in(root, error);
  if (error) LATHE_FAIL(FileError, root.string(), ": ", error.message());
  constexpr size_t kMostNames = 5;
  const bool more = folders.size() > kMostNames;
  if (more) folders.resize(kMostNames);
  const std::string found = folders.empty()
                                ? "no folders"
                                : formatted("the folder{} {}{}", folders.size() == 1 ? "" : "s",
                                            joined(folders, ", "), more ? ", …" : "");
  LATHE_FAIL(DataError, root.string(), ": has ", found,
             "; wanted are train and test (or val), each with a folder of images per class: ",
             (root / "train/cat/1.jpg").string(), ", ", (root / "test/cat/2.jpg").string(),
             has_test_images(root) ? "" : way_without_test_images());
}

/// "; only cat, dog are in images/val", with the names that `others` lacks; "" if it has all.
std::string only_in(const fs::path& folder, const std::vector<std::string>& names,
                    const std::vector<std::string>& others) {
  constexpr size_t kMostNames = 5;
  std::vector<std::string> only;
  for (const std::string& name : names) {
    if (std::ranges::find(others, name) == others.end()) only.push_back(name);
  }
  if (only.empty()) return "";
  const bool is_one = only.size() == 1, more = only.size() > kMostNames;
  if (more) only.resize(kMostNames);
  return formatted("; only {}{} {} in {}", joined(only, ", "), more ? ", …" : "",
                   is_one ? "is" : "are", folder.string());
}

}  // namespace

FolderLayout layout_of(const fs::path& root) {
  if (is_folder(root / "train")) return FolderLayout::kParts;
  std::error_code error;
  const std::vector<std::string> folders = folders_in(root, error);
  if (error || folders.size() < 2 || std::ranges::any_of(folders, is_name_of_part))
    return FolderLayout::kOther;
  const auto has_image = [&](const std::string& name) { return holds_image(root / name); };
  return std::ranges::any_of(folders, has_image) ? FolderLayout::kClasses : FolderLayout::kOther;
}

bool has_test_images(const fs::path& root) {
  switch (layout_of(root)) {
    case FolderLayout::kClasses: return false;
    case FolderLayout::kParts: return is_folder(root / "test") || is_folder(root / "val");
    case FolderLayout::kOther: break;
  }
  return true;
}

void refuse_among_classes(const fs::path& root, const fs::path& run_folder) {
  if (root.empty() || layout_of(root) == FolderLayout::kOther) return;
  const bool is_parts = layout_of(root) == FolderLayout::kParts;
  for (const char* const part : {"train", "test", "val"}) {
    std::error_code error;
    const fs::path classes =
        fs::weakly_canonical(fs::absolute(is_parts ? root / part : root, error), error);
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
  const FolderLayout layout = layout_of(root);
  if (layout == FolderLayout::kOther || (part == Part::kTest && !has_test_images(root)))
    fail_layout(root);
  const fs::path of_training = layout == FolderLayout::kClasses ? root : root / "train";
  const data::ImageFolderOptions options{.broken = broken};
  auto train = std::make_shared<data::ImageFolder>(of_training, options);
  if (part == Part::kTrain || (part == Part::kVal && settings.val_split > 0)) return train;
  const bool tests = part == Part::kTest && is_folder(root / "test");
  const fs::path path = root / (tests ? "test" : "val");
  auto other = std::make_shared<data::ImageFolder>(path, options);
  LATHE_CHECK(DataError, other->class_names() == train->class_names(), path.string(), ": has ",
              other->classes(), " classes that are not the ", train->classes(), " of ",
              of_training.string(), only_in(path, other->class_names(), train->class_names()),
              only_in(of_training, train->class_names(), other->class_names()));
  return other;
}

std::vector<std::string> files_of(const data::ImageDataset& images,
                                  const std::vector<int64_t>& indices) {
  const auto* const cached = dynamic_cast<const data::CachedImages*>(&images);
  const auto* const folder =
      dynamic_cast<const data::ImageFolder*>(cached ? &cached->source() : &images);
  if (!folder) return {};
  const std::vector<std::string> names = folder->broken();
  const std::set<std::string> broken(names.begin(), names.end());
  std::vector<std::string> files;
  for (int64_t i : indices) {
    int64_t tries = 0;  // a file may have been found broken since, and so all of them
    while (broken.contains(folder->path(i)) && ++tries < folder->size())
      i = (i + 1) % folder->size();
    files.push_back(folder->path(i));
  }
  return files;
}

std::string shown_path(const std::string& file) {
  std::error_code error;
  const fs::path here = fs::current_path(error);
  const fs::path below = error ? fs::path() : fs::path(file).lexically_relative(here);
  return below.empty() || *below.begin() == ".." ? file : below.string();
}

}  // namespace lathe::cli
