// TextTable: rows in columns, for people, which give way to a narrow terminal.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/config.h"

namespace lathe {

struct TextColumn {
  std::string heading;
  size_t width = 0;   // of its texts; that of the heading if that is wider
  bool right = true;  // for numbers
  int rank = 0;       // where room is short, columns are left out in this order, 1 first; 0: never
};

/// A table that is printed row by row, so that the widths of its columns are said beforehand. A
/// space is between two columns.
///
/// Where it is too wide, the texts of the first columns become lines of their own, each above the
/// rows that have them in common and are indented. Where that is not enough, columns are left out.
class LATHE_API TextTable {
 public:
  /// `group`: so many of the first columns can become lines of their own.
  /// `width`: the columns of the terminal; 0: any number.
  TextTable(std::vector<TextColumn> columns, size_t group, int width);

  std::string heading() const;
  /// A text for each column, or for the first ones. Begins with the line of its group, unless that
  /// of the row before is the same.
  std::string row(const std::vector<std::string>& cells);
  /// A row whose name takes the room of all columns but the last ones, which get the texts.
  std::string sum(std::string_view name, const std::vector<std::string>& cells) const;
  /// A sentence that names the columns that are left out; "" if none is.
  std::string remark() const;

 private:
  size_t width() const;
  std::string laid_out(std::string line, size_t first, const std::vector<std::string>& cells) const;

  std::vector<TextColumn> columns_;
  std::vector<bool> shown_;
  size_t grouped_ = 0;  // columns that are lines of their own
  int terminal_;
  std::string group_;  // of the row before
};

/// The sentence of remark(), for a table of another kind.
LATHE_API std::string remark_on(const std::vector<std::string>& left_out, int width);

}  // namespace lathe
