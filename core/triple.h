// Triple: an option of a 3-d op that holds one number for the depth, one for the rows and one for
// the columns.
#pragma once

#include "lathe/core/pair.h"

namespace lathe {

/// {depth, rows, columns}; one number sets all: `.stride = 2` or `.stride = {1, 2, 2}`.
struct Triple {
  constexpr Triple(int64_t all = 0) : depth(all), plane(all) {}
  constexpr Triple(int64_t d, int64_t r, int64_t c) : depth(d), plane(r, c) {}

  constexpr bool operator==(const Triple&) const = default;

  int64_t depth;
  Pair plane;  // rows and columns
};

}  // namespace lathe
