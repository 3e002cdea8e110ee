// The nearest candidate for a mistyped word.
#include "lathe/core/text/suggestion.h"

#include <algorithm>

#include "lathe/core/text/formatted.h"

namespace lathe {
namespace {

// Optimal string alignment distance: three rows of the usual table.
size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<size_t> before(b.size() + 1), above(b.size() + 1), row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replace = above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, replace});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        row[j] = std::min(row[j], before[j - 2] + 1);
      }
    }
    before.swap(above);
    above.swap(row);
  }
  return above[b.size()];
}

}  // namespace

std::string nearest(std::string_view word, const std::vector<std::string_view>& candidates,
                    size_t most) {
  std::string_view best;
  size_t best_distance = std::min(most, word.size() / 2) + 1;
  for (const std::string_view candidate : candidates) {
    // The distance is at least this, so a word of a megabyte needs no table.
    if (std::max(word.size(), candidate.size()) - std::min(word.size(), candidate.size()) >=
        best_distance)
      continue;
    const size_t distance = edit_distance(word, candidate);
    if (distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return std::string(best);
}

std::string suggestion(std::string_view word, const std::vector<std::string_view>& candidates,
                       std::string_view prefix) {
  const std::string near = nearest(word, candidates);
  return near.empty() ? "" : formatted("; did you mean {}{}?", prefix, near);
}

}  // namespace lathe
