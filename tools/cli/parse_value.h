// Texts to values: the whole text must be valid, in any locale; errors name where it came from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "lathe/core/text/suggestion.h"

namespace lathe::cli {

// `name` is where the user wrote the value: "--lr", "LATHE_LR", "run.toml:3: lr".
// All throw UsageError for trailing text, nan, inf and values outside [min, max].

int64_t parse_integer(std::string_view name, std::string_view text, int64_t min, int64_t max);
double parse_number(std::string_view name, std::string_view text, double min, double max);
/// Reads true, false, on, off, yes, no, 1 or 0.
bool parse_switch(std::string_view name, std::string_view text);

/// The parts of "a,b,c", without spaces around them; "" has none.
std::vector<std::string> split_list(std::string_view text);

}  // namespace lathe::cli
