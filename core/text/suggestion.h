// What may have been meant by a mistyped word.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/config.h"

namespace lathe {

/// The candidate that is the fewest edits (insert, delete, replace, swap neighbours) away from
/// `word`; "" if none is nearer than half the word's length, or within `most` edits.
LATHE_API std::string nearest(std::string_view word,
                              const std::vector<std::string_view>& candidates,
                              size_t most = SIZE_MAX);

/// "; did you mean --lr?", or "" if no candidate is near.
LATHE_API std::string suggestion(std::string_view word,
                                 const std::vector<std::string_view>& candidates,
                                 std::string_view prefix = "");

}  // namespace lathe
