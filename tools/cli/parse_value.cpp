// Parsing of integers, numbers, switches and lists.
#include "lathe/tools/cli/parse_value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "lathe/core/range_text.h"
#include "lathe/core/text/formatted.h"
#include "lathe/tools/cli/exit_codes.h"

namespace lathe::cli {
namespace {

template <class T>
T parse_whole(std::string_view name, std::string_view text, const char* what) {
  T value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error == std::errc::result_out_of_range) {
    throw UsageError(formatted("{}: {} is out of range", name, text));
  }
  if (error != std::errc{} || stop != end) {
    throw UsageError(formatted("{}: expected {}, got \"{}\"", name, what, text));
  }
  return value;
}

}  // namespace

int64_t parse_integer(std::string_view name, std::string_view text, int64_t min, int64_t max) {
  const auto value = parse_whole<int64_t>(name, text, "a whole number");
  if (value < min || value > max) {
    throw UsageError(
        formatted("{}: expected {}, got {}", name,
                  max == INT64_MAX ? formatted("{} or more", min) : range_text(min, max), value));
  }
  return value;
}

double parse_number(std::string_view name, std::string_view text, double min, double max) {
  const auto value = parse_whole<double>(name, text, "a number");
  if (!std::isfinite(value)) {
    throw UsageError(formatted("{}: expected a finite number, got {}", name, text));
  }
  if (value < min || value > max) {
    throw UsageError(
        formatted("{}: expected {}, got {}", name,
                  std::isinf(max) ? formatted("{} or more", min) : range_text(min, max), text));
  }
  return value;
}

bool parse_switch(std::string_view name, std::string_view text) {
  for (const std::string_view yes : {"true", "on", "yes", "1"}) {
    if (text == yes) return true;
  }
  for (const std::string_view no : {"false", "off", "no", "0"}) {
    if (text == no) return false;
  }
  throw UsageError(formatted("{}: expected true or false, got \"{}\"", name, text));
}

std::vector<std::string> split_list(std::string_view text) {
  std::vector<std::string> parts;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string_view part = text.substr(0, comma);
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    parts.emplace_back(part);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return parts;
}

}  // namespace lathe::cli
