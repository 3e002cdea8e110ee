// A run as a few lines of text, which `lathe watch` prints.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/train/report/run_files.h"

namespace lathe::report {

/// Who trains in a folder now, as far as this machine knows.
struct RunActivity {
  bool training = false;                      // a process of this machine holds the folder's lock
  std::optional<double> seconds_since_row{};  // the age of the newest row of metrics
};

/// Looks into /proc/locks for the lock that a training holds on its run folder, and at the time of
/// the newest row.
LATHE_API RunActivity activity_of(const RunFiles& run);

/// The part of the run that is done, from 0 to 1: its newest row among all its epochs. Empty before
/// the first evaluation, which tells how many steps an epoch has.
LATHE_API std::optional<double> part_done(const RunFiles& run);

/// Name and activity; the newest training row with the time that is left; the evaluations; what of
/// the run's files is missing or cannot be read; the memory; and the loss as a row of blocks,
/// unless `plain`. Lines of `width` columns or more are broken between words into several; with a
/// width of 0 none is.
LATHE_API std::vector<std::string> run_view(const RunFiles& run, const RunActivity& activity,
                                            int width, bool plain);

}  // namespace lathe::report
