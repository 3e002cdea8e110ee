// A word in a list that is written as one text.
#pragma once

#include <algorithm>
#include <string_view>

namespace lathe::cli {

/// True if `words`, a list of words with spaces between them, contains `word`.
inline bool has_word(std::string_view words, std::string_view word) {
  while (!words.empty()) {
    const size_t space = std::min(words.find(' '), words.size());
    if (words.substr(0, space) == word) return true;
    words.remove_prefix(std::min(space + 1, words.size()));
  }
  return false;
}

}  // namespace lathe::cli
