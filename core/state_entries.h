// Whether a state dict has the entries that an object needs, and no others.
#pragma once

#include <string_view>

#include "lathe/core/state_dict.h"

namespace lathe {

/// Compares the names of a state dict's entries with those that `own` has.
/// throws: ValueError "<object>: the state does not fit: missing a; unexpected b" that lists all
/// names in which the two differ.
LATHE_API void check_entries(std::string_view object, const StateDict& state, const StateDict& own);

}  // namespace lathe
