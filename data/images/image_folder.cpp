// ImageFolder: listing the files, the first image's size, and replacement of broken files.
#include "lathe/data/images/image_folder.h"

#include <algorithm>
#include <cctype>

#include "lathe/core/error.h"
#include "lathe/core/files/paths.h"
#include "lathe/data/images/image_file.h"

namespace lathe::data {
namespace {

namespace fs = std::filesystem;

/// The entries of a folder without hidden names, in the byte order of their names.
std::vector<fs::directory_entry> entries_of(const fs::path& folder) try {
  std::vector<fs::directory_entry> entries;
  for (const auto& entry : fs::directory_iterator(folder))
    if (!entry.path().filename().native().starts_with('.')) entries.push_back(entry);
  std::sort(entries.begin(), entries.end(), [](const auto& a, const auto& b) {
    return a.path().filename().native() < b.path().filename().native();
  });
  return entries;
} catch (const fs::filesystem_error& error) {
  LATHE_FAIL(FileError, folder.string(), ": ", error.code().message());
}

constexpr ImageSpec kUnknownSpec{3, 1, 1};  // where no file can say it

constexpr std::string_view kImageEndings[] = {".jpg", ".jpeg", ".png", ".webp"};

std::string ending_of(const fs::path& path) {
  std::string end = path.extension().string();
  std::transform(end.begin(), end.end(), end.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return end;
}

// Mostly the listing has told it, and the system is not asked again. Opening what is named like an
// image tells why it cannot be looked at.
bool is_class_folder(const fs::directory_entry& entry) {
  std::error_code unknown;
  if (entry.is_directory(unknown)) return true;
  return unknown && !is_image_name(entry.path().native()) && is_folder_entry(entry.path());
}

/// The images in a folder and below it, sorted by the path of their folder, then by name.
void list_images(const fs::path& folder, std::vector<fs::path>& images, LeftOut& left_out) {
  constexpr int kDeepest = 32;  // nested folders; a link to a folder above would never end
  std::vector<std::pair<fs::path, int>> folders = {{folder, 0}};
  std::vector<std::pair<fs::path, std::vector<fs::path>>> found;
  while (!folders.empty()) {
    const auto [here, depth] = folders.back();
    folders.pop_back();
    LATHE_CHECK(DataError, depth <= kDeepest, here.string(), ": more than ", kDeepest,
                " folders deep; a link to a folder above?");
    auto& [path, files] = found.emplace_back(here, std::vector<fs::path>());
    for (const auto& entry : entries_of(here)) {
      if (is_class_folder(entry)) {
        folders.emplace_back(entry.path(), depth + 1);
      } else if (is_image_name(entry.path().native())) {
        files.push_back(entry.path());
      } else {
        ++left_out[ending_of(entry.path())];
      }
    }
  }
  std::sort(found.begin(), found.end(),
            [](const auto& a, const auto& b) { return a.first.native() < b.first.native(); });
  for (const auto& [path, files] : found) images.insert(images.end(), files.begin(), files.end());
}

ImageFileLimits limits_of(const ImageFolderOptions& options) {
  return {.pixels = options.limit_pixels};
}

/// Whether the error is about the file that was read.
bool is_of_file(const Error& error) {
  return dynamic_cast<const DataError*>(&error) != nullptr ||
         dynamic_cast<const FileError*>(&error) != nullptr;
}

[[noreturn]] void fail_all_broken(size_t files, const std::string& why_first) {
  LATHE_FAIL(DataError, "none of ", files, " images can be read; the first: ", why_first);
}

}  // namespace

bool is_image_name(std::string_view file) {
  const std::string end = ending_of(file);
  return std::find(std::begin(kImageEndings), std::end(kImageEndings), end) !=
         std::end(kImageEndings);
}

std::string text_of(const LeftOut& left_out) {
  constexpr size_t kMostEndings = 5;
  std::vector<std::pair<std::string, int64_t>> endings(left_out.begin(), left_out.end());
  std::stable_sort(endings.begin(), endings.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  std::string text;
  for (size_t k = 0; k < endings.size() && k < kMostEndings; ++k) {
    const auto& [end, count] = endings[k];
    text += concat(k > 0 ? ", " : "", count, " ", end.empty() ? "without an ending" : end);
  }
  int64_t others = 0;
  for (size_t k = kMostEndings; k < endings.size(); ++k) others += endings[k].second;
  return others > 0 ? concat(text, ", ", others, " others") : text;
}

std::vector<std::string> images_below(const std::string& folder, LeftOut* left_out) {
  std::vector<fs::path> images;
  LeftOut unused;
  list_images(folder, images, left_out ? *left_out : unused);
  return {images.begin(), images.end()};
}

ImageFolder::Listing ImageFolder::list(const std::string& root) {
  Listing listing{.root = root};
  for (const auto& entry : entries_of(root)) {
    if (!is_class_folder(entry)) {
      const bool is_stray = is_image_name(entry.path().native());
      ++listing.left_out[ending_of(entry.path()) + (is_stray ? " outside of the classes" : "")];
      continue;
    }
    std::vector<fs::path> images;
    LeftOut others;
    list_images(entry.path(), images, others);
    LATHE_CHECK(DataError, !images.empty(), entry.path().string(),
                ": a class without images (.jpg, .jpeg, .png, .webp)",
                others.empty() ? "" : "; left out: ", text_of(others));
    for (const auto& [end, count] : others) listing.left_out[end] += count;
    const auto label = static_cast<int64_t>(listing.classes.size());
    for (const fs::path& image : images) listing.files.push_back({image.string(), label});
    listing.classes.push_back(entry.path().filename().string());
  }
  LATHE_CHECK(DataError, !listing.classes.empty(), root,
              ": has no folders; each class needs one, with its images in it");
  return listing;
}

ImageSpec ImageFolder::first_spec(Listing& listing, const ImageFolderOptions& options) {
  ImageFile image;
  std::string why;  // why the first file cannot be read
  for (const File& file : listing.files) {
    try {
      image.open(file.path, limits_of(options));
      listing.first = file.path;
      return image.spec();
    } catch (const Error& error) {
      if (!is_of_file(error) || options.broken == BrokenImage::kRefuse) throw;
      if (why.empty()) why = error.message();
    }
  }
  if (options.broken == BrokenImage::kRefuseWhenRead) return kUnknownSpec;
  fail_all_broken(listing.files.size(), why);
}

ImageFolder::ImageFolder(const std::string& root, const ImageFolderOptions& options)
    : ImageFolder(list(root), options) {}

ImageFolder::ImageFolder(Listing listing, const ImageFolderOptions& options)
    : ImageDataset(first_spec(listing, options), std::move(listing.classes), options.mean,
                   options.std),
      root_(std::move(listing.root)),
      files_(std::move(listing.files)),
      left_out_(std::move(listing.left_out)),
      first_(std::move(listing.first)),
      options_(options),
      is_broken_(std::make_unique<std::atomic<bool>[]>(files_.size())) {
  set_transform(options.transform);
}

void ImageFolder::keep(const std::vector<int64_t>& indices) {
  std::vector<File> kept;
  for (const int64_t i : indices) {
    LATHE_CHECK(IndexError, i >= 0 && i < size(), "ImageFolder: index ", i, " is out of range for ",
                size(), " images");
    kept.push_back(files_[static_cast<size_t>(i)]);
  }
  files_ = std::move(kept);
  is_broken_ = std::make_unique<std::atomic<bool>[]>(files_.size());
}

std::vector<std::string> ImageFolder::broken() const {
  std::vector<std::string> paths;
  for (size_t k = 0; k < files_.size(); ++k)
    if (is_broken_[k].load(std::memory_order_relaxed)) paths.push_back(files_[k].path);
  return paths;
}

void ImageFolder::set_transform(const Transform& transform) {
  const ImageSpec before = stored_spec();
  std::string why;
  try {
    return ImageDataset::set_transform(transform);
  } catch (const ShapeError& error) {
    why = concat(first_, ": ", error.message());
  }
  if (options_.broken == BrokenImage::kRefuse) LATHE_FAIL(DataError, why);
  if (options_.broken == BrokenImage::kRefuseWhenRead) {
    set_stored_spec(kUnknownSpec);
    return ImageDataset::set_transform(transform);
  }
  ImageFile image;
  for (const File& file : files_) {
    try {
      image.open(file.path, limits_of(options_));
      set_stored_spec(image.spec());
      return ImageDataset::set_transform(transform);
    } catch (const ShapeError&) {
    } catch (const Error& error) {
      if (!is_of_file(error)) throw;
    }
  }
  set_stored_spec(before);
  fail_all_broken(files_.size(), why);
}

bool ImageFolder::skips(size_t file, const Error& error) const {
  if (is_of_file(error)) is_broken_[file].store(true, std::memory_order_relaxed);
  return is_of_file(error) && options_.broken == BrokenImage::kSkip;
}

template <class Use>
void ImageFolder::open_sample(int64_t i, Use&& use) const {
  thread_local ImageFile image;
  const bool skip = options_.broken == BrokenImage::kSkip;
  std::string why;  // of the first file that was tried
  for (size_t tried = 0; tried < files_.size(); ++tried) {
    const size_t k = (static_cast<size_t>(i) + tried) % files_.size();
    const File& file = files_[k];
    if (skip && is_broken_[k].load(std::memory_order_relaxed)) continue;
    try {
      image.open(file.path, limits_of(options_));
      output_of(image.spec(), [&] { return file.path; });
      return use(file, image);
    } catch (const Error& error) {
      if (!skips(k, error)) throw;
      if (why.empty()) why = error.message();
    }
  }
  fail_all_broken(files_.size(), why.empty() ? concat(files_[0].path, ": is broken") : why);
}

int64_t ImageFolder::read_image(int64_t i, Key key, void* out) const {
  ImageSpec spec;
  const File* read = nullptr;
  const uint8_t* pixels = nullptr;
  open_sample(i, [&](const File& file, ImageFile& image) {
    spec = image.decode(options_.scaled_decoding ? transform().detail(image.spec(), key) : 1.0);
    pixels = image.pixels();
    read = &file;
  });
  transform(pixels, spec, key, out, [&] { return read->path; });
  return read->label;
}

StoredImage ImageFolder::load(int64_t i, std::vector<uint8_t>& pixels) const {
  StoredImage loaded;
  open_sample(i, [&](const File& file, ImageFile& image) {
    loaded = {image.decode(1.0), file.label};
    pixels.assign(image.pixels(), image.pixels() + loaded.spec.pixels());
  });
  return loaded;
}

}  // namespace lathe::data
