// Rows as JSON and CSV.
#include "lathe/train/row.h"

#include <cmath>

#include "lathe/core/json.h"
#include "lathe/core/printable.h"
#include "lathe/core/text/formatted.h"

namespace lathe::train {
namespace {

// A spreadsheet takes what begins like this for a formula, unless an apostrophe stands before it.
bool is_like_a_formula(const std::string& text) {
  return !text.empty() && std::string_view("=+-@").find(text[0]) != std::string_view::npos;
}

// RFC 4180. What commands a terminal is spelled out.
std::string csv_field(const std::string& raw) {
  const std::string text = (is_like_a_formula(raw) ? "'" : "") + printable_lines(raw);
  if (text.find_first_of(",\"\r\n") == std::string::npos) return text;
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"') out += '"';
    out += c;
  }
  return out + '"';
}

std::string csv_field(bool value) { return value ? "true" : "false"; }
std::string csv_field(int64_t value) { return std::to_string(value); }
std::string csv_field(double value) { return std::isfinite(value) ? number_text(value) : ""; }

template <class F>
std::string joined_fields(const Row& row, F field) {
  std::string line;
  for (const auto& entry : row.values()) {
    if (&entry != row.values().data()) line += ',';
    line += field(entry);
  }
  return line;
}

}  // namespace

Row& Row::put(std::string name, Value value) {
  values_.emplace_back(std::move(name), std::move(value));
  return *this;
}

std::string to_json(const Row& row, int indent) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [name, value] : row.values()) {
    std::visit([&, &key = name](const auto& v) { object[key] = v; }, value);
  }
  // JSON allows control characters above ASCII as they are; \u009b is the same text, escaped.
  return printable_lines(
      object.dump(indent, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

std::string csv_header(const Row& row) {
  return joined_fields(row, [](const auto& entry) { return csv_field(entry.first); });
}

std::string csv_line(const Row& row) {
  return joined_fields(row, [](const auto& entry) {
    return std::visit([](const auto& v) { return csv_field(v); }, entry.second);
  });
}

}  // namespace lathe::train
