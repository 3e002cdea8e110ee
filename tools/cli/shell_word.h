// shell_word(): a name in a command that a message offers, as a shell reads it.
#pragma once

#include <string>
#include <string_view>

namespace lathe::cli {

/// Returns the text as one word of a shell command: in single quotes if a shell would split or
/// change the text, otherwise unchanged.
inline std::string shell_word(std::string_view text) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./,:=@%+";
  if (!text.empty() && text.find_first_not_of(kPlain) == text.npos) return std::string(text);
  std::string word = "'";
  for (const char c : text) {
    if (c == '\'') {
      word += "'\\''";
    } else {
      word += c;
    }
  }
  return word + "'";
}

}  // namespace lathe::cli
