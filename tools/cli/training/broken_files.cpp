// BrokenFiles: compares the files that the data sets report with those named so far.
#include "lathe/tools/cli/training/broken_files.h"

#include <algorithm>
#include <string>

#include "lathe/core/text/formatted.h"
#include "lathe/data/images/image_folder.h"
#include "lathe/tools/cli/settings/defaults.h"
#include "lathe/tools/cli/shell_word.h"

namespace lathe::cli {

BrokenFiles::BrokenFiles(std::vector<const data::Dataset*> sets, Log& log) : log_(log) {
  for (const data::Dataset* set : sets)
    if (const auto* images = dynamic_cast<const data::ImageDataset*>(set)) sets_.push_back(images);
}

void BrokenFiles::report() {
  for (const data::ImageDataset* images : sets_)
    for (const std::string& file : images->broken())
      if (named_.insert(file).second)
        log_.warning(formatted("skipped {}: it cannot be read or resized", file));
}

void BrokenFiles::join(const Ranks& ranks) {
  constexpr char kEnd = '\0';  // which no name has
  std::string own;
  for (const std::string& file : named_) own += file + kEnd;
  for (const std::string& text : ranks.from_all(own)) {
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find(kEnd, begin);
      named_.insert(text.substr(begin, end - begin));
      begin = end + 1;
    }
  }
}

namespace {

// Whether an error is about an image: of a sample, or of the file that it begins with.
bool is_of_image(std::string_view error) {
  if (error.starts_with("sample ")) return true;
  const std::string_view name = error.substr(0, error.find(": "));
  return name.size() < error.size() && data::is_image_name(name);
}

}  // namespace

std::string image_advice(const Settings& settings, std::string_view error) {
  if (*settings.dataset != "folder" || settings.skip_broken || !is_of_image(error)) return "";
  // What fits a small size may not fit a larger one.
  const int64_t side = settings.image_size.value_or(kFolderImageSize);
  return formatted(
      "; --skip-broken trains without such files (with --resume also --allow-changes), and lathe "
      "data verify {}{} names them all",
      shell_word(settings.data_root),
      side > kFolderImageSize ? formatted(" --image-size {}", side) : "");
}

}  // namespace lathe::cli
