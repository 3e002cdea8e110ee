// TextTable: which columns there is room for, and the rows.
#include "lathe/core/text/text_table.h"

#include <algorithm>

#include "lathe/core/text/formatted.h"
#include "lathe/core/text/wrapping.h"

namespace lathe {
namespace {

constexpr size_t kIndent = 2;  // of rows below the line of their group

size_t width_of(const TextColumn& column) {
  return std::max(column.width, columns_of(column.heading));
}

}  // namespace

TextTable::TextTable(std::vector<TextColumn> columns, size_t group, int width)
    : columns_(std::move(columns)), shown_(columns_.size(), true), terminal_(width) {
  const auto fits = [&] { return width == 0 || this->width() <= static_cast<size_t>(width); };
  if (fits()) return;
  grouped_ = group;
  while (!fits()) {
    size_t next = columns_.size();
    for (size_t i = grouped_; i < columns_.size(); ++i) {
      const int rank = columns_[i].rank;
      if (shown_[i] && rank > 0 && (next == columns_.size() || rank < columns_[next].rank))
        next = i;
    }
    if (next == columns_.size()) return;
    shown_[next] = false;
  }
}

size_t TextTable::width() const {
  size_t all = grouped_ > 0 ? kIndent : 0;
  for (size_t i = grouped_; i < columns_.size(); ++i) {
    if (shown_[i]) all += width_of(columns_[i]) + 1;
  }
  return all - 1;
}

/// Appends the texts of the columns from `first` on. A text that is too long takes the space that
/// numbers behind it leave free.
std::string TextTable::laid_out(std::string line, size_t first,
                                const std::vector<std::string>& cells) const {
  size_t begin = grouped_ > 0 ? kIndent : 0;
  for (size_t i = grouped_; i < columns_.size(); ++i) {
    if (!shown_[i]) continue;
    const size_t width = width_of(columns_[i]);
    if (i >= first && i - first < cells.size() && !cells[i - first].empty()) {
      const std::string& text = cells[i - first];
      const size_t free = columns_[i].right ? width - std::min(width, columns_of(text)) : 0;
      const size_t at = columns_of(line);
      const size_t least = at == 0 ? 0 : at + 1;
      line += std::string(std::max(begin + free, least) - at, ' ') + text;
    }
    begin += width + 1;
  }
  return line;
}

std::string TextTable::heading() const {
  std::vector<std::string> headings;
  for (const TextColumn& column : columns_) headings.push_back(column.heading);
  std::string group;
  for (size_t i = 0; i < grouped_; ++i)
    group += (group.empty() || headings[i].empty() ? "" : ", ") + headings[i];
  headings.erase(headings.begin(), headings.begin() + static_cast<std::ptrdiff_t>(grouped_));
  return (grouped_ > 0 ? group + "\n" : "") + laid_out("", grouped_, headings);
}

std::string TextTable::row(const std::vector<std::string>& cells) {
  if (grouped_ == 0) return laid_out("", 0, cells);
  std::string group;
  for (size_t i = 0; i < grouped_; ++i) {
    const std::string text =
        cells[i].substr(std::min(cells[i].find_first_not_of(' '), cells[i].size()));
    group += (group.empty() || text.empty() ? "" : "  ") + text;
  }
  const std::string above = group == group_ ? "" : group + "\n";
  group_ = group;
  return above + laid_out("", grouped_,
                          {cells.begin() + static_cast<std::ptrdiff_t>(grouped_), cells.end()});
}

std::string TextTable::sum(std::string_view name, const std::vector<std::string>& cells) const {
  return laid_out(std::string(name), columns_.size() - cells.size(), cells);
}

std::string TextTable::remark() const {
  std::vector<std::string> names;
  for (size_t i = 0; i < columns_.size(); ++i) {
    if (!shown_[i]) names.push_back(columns_[i].heading);
  }
  return remark_on(names, terminal_);
}

std::string remark_on(const std::vector<std::string>& left_out, int width) {
  if (left_out.empty()) return "";
  return formatted("{} columns have no room for {}; a file or a pipe gets {}", width,
                   joined(left_out, ", "), left_out.size() == 1 ? "it" : "them");
}

}  // namespace lathe
