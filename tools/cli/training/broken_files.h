// BrokenFiles: reports each file that --skip-broken skips, once.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/data/images/image_datasets.h"
#include "lathe/tools/cli/output.h"
#include "lathe/tools/cli/settings/settings.h"
#include "lathe/tools/cli/training/join_ranks.h"

namespace lathe::cli {

/// The files of some data sets that were found broken and replaced by others.
class BrokenFiles {
 public:
  /// Both arguments must outlive it. Data sets that are not of images have no broken files.
  BrokenFiles(std::vector<const data::Dataset*> sets, Log& log);

  /// Names the files found since the last call in the log.
  void report();
  /// Makes count() that of all ranks from now on. All ranks must call it.
  void join(const Ranks& ranks);
  int64_t count() const { return static_cast<int64_t>(named_.size()); }

 private:
  std::vector<const data::ImageDataset*> sets_;
  std::set<std::string> named_;
  Log& log_;
};

/// What helps after the loader's error `error`, if it is about an image of a folder; else "".
std::string image_advice(const Settings& settings, std::string_view error);

}  // namespace lathe::cli
