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

/// The table without the columns for which a terminal of `width` columns has no room; with 0 all
/// columns stay. The columns that say least about the time are left out first. The name and the
/// self time stay (for a recording with GPU times the GPU's self time). If these two columns are
/// too wide, names are cut.
LATHE_API FittedTable fitted_table(const Averages& averages, const TableOptions& options,
                                   int width);

}  // namespace lathe::profile
