// Texts to values: whole, locale-free, and every complaint names where the text came from.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace lathe::cli {

// `name` is what the user wrote the value at: "--lr", "LATHE_LR", "run.toml:3: lr".
// All throw UsageError: for trailing text, nan, inf and what lies outside [min, max].

int64_t parse_integer(std::string_view name, std::string_view text, int64_t min, int64_t max);
double parse_number(std::string_view name, std::string_view text, double min, double max);
/// true, false, on, off, yes, no, 1, 0.
bool parse_switch(std::string_view name, std::string_view text);

/// The parts of "a,b,c", without spaces around them; "" has none.
std::vector<std::string> split_list(std::string_view text);

/// The shortest text that parse_number reads back as the same value; "nan" for any NaN.
std::string number_text(double value);

/// For {fmt}, which writes "-nan" where the bits of a NaN have a sign. It says nothing.
double without_sign_of_nan(double value);

/// The candidate that is fewest edits (insert, delete, replace, swap neighbours) away from `word`;
/// "" if none is nearer than half the word.
std::string nearest(std::string_view word, const std::vector<std::string_view>& candidates);

/// "; did you mean --lr?", or "" without a candidate that is near.
std::string suggestion(std::string_view word, const std::vector<std::string_view>& candidates,
                       std::string_view prefix = "");

}  // namespace lathe::cli
