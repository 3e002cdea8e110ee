// look_into(), open_image_folder() and their errors.
#include "lathe/data/images/image_folders.h"

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "lathe/core/error.h"
#include "lathe/core/files/paths.h"
#include "lathe/core/text/count_text.h"
#include "lathe/core/text/formatted.h"
#include "lathe/core/text/small_letters.h"
#include "lathe/data/images/cached_images.h"

namespace lathe::data {
namespace {

namespace fs = std::filesystem;

/// What people call the folders of the parts, in small letters. As classes they would be a mistake.
struct PartName {
  std::string_view name;
  Part part;
};
constexpr PartName kPartNames[] = {
    {"train", Part::kTrain}, {"training", Part::kTrain}, {"val", Part::kVal},
    {"valid", Part::kVal},   {"validation", Part::kVal}, {"eval", Part::kVal},
    {"dev", Part::kVal},     {"test", Part::kTest},      {"testing", Part::kTest}};

std::optional<Part> part_called(const std::string& folder) {
  const auto at = std::ranges::find(kPartNames, in_small_letters(folder), &PartName::name);
  if (at == std::end(kPartNames)) return std::nullopt;
  return at->part;
}

/// What lies directly in a folder, without hidden names.
struct Listing {
  std::vector<std::string> folders;  // sorted
  int64_t images = 0;
};

Listing listing_of(const fs::path& folder) try {
  Listing out;
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.')) continue;
    // A link that leads nowhere, or to itself, is no folder, unless it is called like a part.
    std::error_code error;
    const bool is_directory = entry.is_directory(error);
    if (error && error != std::errc::no_such_file_or_directory &&
        error != std::errc::too_many_symbolic_link_levels)
      throw fs::filesystem_error("", entry.path(), error);
    if (part_called(name) ? is_folder(entry.path()) : is_directory) {
      out.folders.push_back(name);
    } else {
      out.images += is_image_name(name) ? 1 : 0;
    }
  }
  std::ranges::sort(out.folders);
  return out;
} catch (const fs::filesystem_error& e) {
  LATHE_FAIL(FileError, e.path1().string(), ": ", e.code().message());
}

/// "cat, dog, …"
std::string some_of(std::vector<std::string> names) {
  constexpr size_t kMostNames = 5;
  const bool more = names.size() > kMostNames;
  if (more) names.resize(kMostNames);
  return joined(names, ", ") + (more ? ", …" : "");
}

std::string without_class_folders(const fs::path& folder, const Listing& listing) {
  return formatted("{} holds {}, and no folders; each class needs a folder of its images: {}",
                   folder.string(), count_text(listing.images, "image"),
                   (folder / "cat/1.jpg").string());
}

std::string wanted_layout_of(const fs::path& root, const std::vector<std::string>& folders) {
  const std::string found =
      folders.empty()
          ? "no folders"
          : formatted("the folder{} {}", folders.size() == 1 ? "" : "s", some_of(folders));
  return formatted(
      "{}: has {}; wanted are train and test (or val), each with a folder of images per class: {}, "
      "{}",
      root.string(), found, (root / "train/cat/1.jpg").string(),
      (root / "test/cat/2.jpg").string());
}

/// The layout of a folder that has folders named like parts; `others` are its other folders.
ImageFolders parts_of(const fs::path& root, const std::vector<std::string>& parts,
                      const std::vector<std::string>& others) {
  ImageFolders out{.layout = FolderLayout::kParts};
  for (const std::string& name : parts) {
    const Part part = *part_called(name);
    fs::path& place = part == Part::kTrain ? out.train : part == Part::kVal ? out.val : out.test;
    if (!place.empty())
      return {.problem = formatted("{}: has {} and {}, which are two names of one part; keep one",
                                   root.string(), place.filename().string(), name)};
    place = root / name;
  }
  // With images and no folders, one may be a class that is called so.
  const fs::path first = root / parts[0];
  const Listing inside = listing_of(out.train.empty() ? first : out.train);
  const bool has_classes = inside.images == 0 || !inside.folders.empty();
  if (!out.train.empty() && has_classes) return out;
  const auto has_image = [&](const std::string& name) {
    return listing_of(root / name).images > 0;
  };
  const bool others_are_classes = std::ranges::any_of(others, has_image);
  if (parts.size() == 1 && !has_classes && others.size() >= 2 && others_are_classes)
    return {.layout = FolderLayout::kClasses};
  if (has_classes) {
    const auto holds_class = [&](const std::string& name) {
      return listing_of(first / name).images > 0;
    };
    const bool has_images = std::ranges::any_of(inside.folders, holds_class);
    return {.problem = has_images ? wanted_layout_of(root, parts) : ""};
  }
  return {.problem = without_class_folders(out.train.empty() ? first : out.train, inside) +
                     (others_are_classes
                          ? formatted("; if {} is a class itself, give it another name", parts[0])
                          : "")};
}

/// "; only cat, dog are in images/val", with the names that `others` lacks; "" if it has all.
std::string only_in(const fs::path& folder, const std::vector<std::string>& names,
                    const std::vector<std::string>& others) {
  std::vector<std::string> only;
  for (const std::string& name : names) {
    if (std::ranges::find(others, name) == others.end()) only.push_back(name);
  }
  if (only.empty()) return "";
  return formatted("; only {} {} in {}", some_of(only), only.size() == 1 ? "is" : "are",
                   folder.string());
}

ImageFolders layout_of(const fs::path& root, bool look_deeper);

/// An archive often unpacks into a folder of its own: that one of `folders` whose layout is
/// understood. Empty if there is none.
fs::path layout_below(const fs::path& root, const std::vector<std::string>& folders) {
  constexpr size_t kMostFolders = 8;  // a folder of more is no unpacked archive
  if (folders.size() > kMostFolders) return {};
  const auto is_understood = [&](const std::string& name) {
    try {
      return layout_of(root / name, false).layout > FolderLayout::kOther;
    } catch (const FileError&) {  // one that nobody asked for
      return false;
    }
  };
  const auto found = std::ranges::find_if(folders, is_understood);
  return found == folders.end() ? fs::path() : root / *found;
}

ImageFolders layout_of(const fs::path& root, bool look_deeper) {
  std::error_code error;
  const fs::file_status status = fs::status(root, error);
  LATHE_CHECK(FileError, status.type() != fs::file_type::none, root.string(), ": ",
              error.message());
  if (!fs::is_directory(status))
    return {.layout = fs::exists(status) ? FolderLayout::kOther : FolderLayout::kMissing};
  const Listing listing = listing_of(root);
  std::vector<std::string> parts, others;
  for (const std::string& name : listing.folders)
    (part_called(name) ? parts : others).push_back(name);
  if (!parts.empty()) return parts_of(root, parts, others);
  const auto has_image = [&](const std::string& name) {
    return listing_of(root / name).images > 0;
  };
  if (std::ranges::any_of(others, has_image)) {
    if (others.size() >= 2) return {.layout = FolderLayout::kClasses};
    return {.problem = wanted_layout_of(root, others)};
  }
  if (listing.images > 0) return {.problem = without_class_folders(root, listing)};
  const fs::path below = look_deeper ? layout_below(root, others) : fs::path();
  if (below.empty()) return {};
  return {.problem = formatted("{}; {} has folders of images", wanted_layout_of(root, others),
                               below.string()),
          .below = below};
}

}  // namespace

ImageFolders look_into(const fs::path& root) { return layout_of(root, true); }

std::string wanted_layout(const fs::path& root) {
  return wanted_layout_of(root, listing_of(root).folders);
}

std::shared_ptr<ImageFolder> open_image_folder(const fs::path& root, Part part,
                                               const ImageFolderOptions& options) {
  const ImageFolders found = look_into(root);
  const bool has_part =
      found.layout > FolderLayout::kOther &&
      (part == Part::kTrain || !(part == Part::kVal ? found.val : found.tests()).empty());
  if (!has_part) LATHE_FAIL(DataError, found.problem.empty() ? wanted_layout(root) : found.problem);
  return open_image_folder(root, found, part, options);
}

std::shared_ptr<ImageFolder> open_image_folder(const fs::path& root, const ImageFolders& found,
                                               Part part, const ImageFolderOptions& options) {
  const fs::path of_training = found.layout == FolderLayout::kClasses ? root : found.train;
  auto train = std::make_shared<ImageFolder>(of_training, options);
  if (part == Part::kTrain) return train;
  const fs::path path = part == Part::kTest ? found.tests() : found.val;
  auto other = std::make_shared<ImageFolder>(path, options);
  LATHE_CHECK(DataError, other->class_names() == train->class_names(), path.string(), ": has ",
              other->classes(), " classes that are not the ", train->classes(), " of ",
              of_training.string(), only_in(path, other->class_names(), train->class_names()),
              only_in(of_training, train->class_names(), other->class_names()));
  return other;
}

namespace {

/// The folder that the images are read from; null if there is none.
const ImageFolder* folder_of(const ImageDataset& images) {
  const auto* const cached = dynamic_cast<const CachedImages*>(&images);
  return dynamic_cast<const ImageFolder*>(cached ? &cached->source() : &images);
}

}  // namespace

std::string left_out_text(const std::vector<const ImageDataset*>& sets) {
  std::set<std::string> roots;
  LeftOut all;
  for (const ImageDataset* const images : sets) {
    const ImageFolder* const folder = folder_of(*images);
    if (!folder || !roots.insert(folder->root()).second) continue;
    for (const auto& [end, count] : folder->left_out()) all[end] += count;
  }
  if (all.empty()) return "";
  return formatted("left out: {}; images are .jpg, .jpeg, .png and .webp files", text_of(all));
}

std::vector<std::string> files_of(const ImageDataset& images, const std::vector<int64_t>& indices) {
  const ImageFolder* const folder = folder_of(images);
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

}  // namespace lathe::data
