// The table of averages as a terminal has room for it; Averages::table() has all columns.
#pragma once

#include <string>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/profile/averages.h"

namespace lathe::profile {

/// A table and the titles of the columns that it lacks.
struct FittedTable {
  std::string text;
  std::vector<std::string> left_out;
};

/// The table without the columns that `width` columns of a terminal have no room for; 0: with all.
/// Those that say least of where the time went are left out first. The name and the self time stay,
/// of a recording with GPU times those of the GPU; names are cut if these alone are too wide.
LATHE_API FittedTable fitted_table(const Averages& averages, const TableOptions& options,
                                   int width);

}  // namespace lathe::profile
