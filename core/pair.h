// Pair: an option of a 2-d op that holds one number for the rows and one for the columns.
#pragma once

#include <cstdint>
#include <string>

#include "lathe/core/format.h"

namespace lathe {

/// {rows, columns}; one number sets both: `.stride = 2` or `.stride = {2, 1}`.
struct Pair {
  constexpr Pair(int64_t both = 0) : rows(both), cols(both) {}
  constexpr Pair(int64_t r, int64_t c) : rows(r), cols(c) {}

  constexpr bool operator==(const Pair&) const = default;

  int64_t rows, cols;
};

/// True if the comparison holds for both numbers.
constexpr bool operator>(const Pair& a, int64_t b) { return a.rows > b && a.cols > b; }
constexpr bool operator>=(const Pair& a, int64_t b) { return a.rows >= b && a.cols >= b; }

/// "2", or "[2,1]" where they differ.
inline void append_text(std::string& out, const Pair& p) {
  if (p.rows == p.cols) {
    append_text(out, p.rows);
  } else {
    out += concat("[", p.rows, ",", p.cols, "]");
  }
}

}  // namespace lathe
