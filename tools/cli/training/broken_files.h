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

/// The broken files of some data sets, in whose place other files are read.
class BrokenFiles {
 public:
  /// `sets` and `log` must outlive the BrokenFiles. A data set that has no images has no broken
  /// files.
  BrokenFiles(std::vector<const data::Dataset*> sets, Log& log);

  /// Names the broken files that were found since the last call, in the log.
  void report();
  /// From now on count() counts the broken files of all ranks. All ranks must call join().
  void join(const Ranks& ranks);
  int64_t count() const { return static_cast<int64_t>(named_.size()); }

 private:
  std::vector<const data::ImageDataset*> sets_;
  std::set<std::string> named_;
  Log& log_;
};

/// Advice after the loader's error `error`, if the error is about an image of a folder; otherwise
/// "".
std::string image_advice(const Settings& settings, std::string_view error);

}  // namespace lathe::cli
