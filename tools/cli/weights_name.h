// names_weights(): whether a word on the command line is likely to mean a model.
#pragma once

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <system_error>

namespace lathe::cli {

/// True if `word` names an existing file whose name has the ending of a weights file or of a file
/// with a whole model.
inline bool names_weights(std::string_view word) {
  constexpr std::string_view kEndings[] = {".safetensors", ".pth",  ".pt",   ".pt2",
                                           ".npz",         ".onnx", ".lathe"};
  std::error_code unreadable;  // it is for hints
  return std::ranges::any_of(kEndings, [&](auto ending) { return word.ends_with(ending); }) &&
         std::filesystem::is_regular_file(word, unreadable);
}

}  // namespace lathe::cli
