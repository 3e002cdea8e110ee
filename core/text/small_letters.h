// in_small_letters(): for words that people write in large letters, too.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace lathe {

/// ASCII's letters as small ones, in every locale; all else stays.
inline std::string in_small_letters(std::string_view text) {
  std::string small(text);
  std::ranges::transform(small, small.begin(), [](char c) {
    return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  });
  return small;
}

}  // namespace lathe
