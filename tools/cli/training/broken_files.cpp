// BrokenFiles: compares the files that the data sets report with those named so far.
#include "lathe/tools/cli/training/broken_files.h"

#include "lathe/tools/cli/formatted.h"

namespace lathe::cli {

BrokenFiles::BrokenFiles(std::vector<const data::Dataset*> sets, Log& log) : log_(log) {
  for (const data::Dataset* set : sets)
    if (const auto* images = dynamic_cast<const data::ImageDataset*>(set)) sets_.push_back(images);
}

void BrokenFiles::report() {
  for (const data::ImageDataset* images : sets_)
    for (const std::string& file : images->broken())
      if (named_.insert(file).second)
        log_.warning(formatted("skipped {}: it cannot be read", file));
}

}  // namespace lathe::cli
