// Finding a setting, assigning its value from text, and its value as text.
#include "lathe/tools/cli/settings/settings.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <system_error>

#include "lathe/core/text/formatted.h"
#include "lathe/core/text/small_letters.h"
#include "lathe/tools/cli/exit_codes.h"
#include "lathe/tools/cli/parse_value.h"

namespace lathe::cli {
namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;  // clang 16 does not deduce it for an aggregate

void check_choice(const Setting& setting, std::string_view name, std::string_view text) {
  const bool is_accepted = setting.accepts != nullptr && setting.accepts(text);
  if (setting.choices.empty() || is_accepted) return;
  std::vector<std::string_view> choices;
  for (std::string_view rest = setting.choices; !rest.empty();) {
    const size_t bar = std::min(rest.find('|'), rest.size());
    choices.push_back(rest.substr(0, bar));
    rest.remove_prefix(std::min(bar + 1, rest.size()));
  }
  if (std::find(choices.begin(), choices.end(), text) != choices.end()) return;
  const std::string hint = setting.hint == nullptr ? "" : setting.hint(text);
  const std::string small = in_small_letters(text);  // "SGD"
  throw UsageError(formatted("{}: expected one of {}, got \"{}\"{}", name, joined(choices, ", "),
                             text, hint.empty() ? suggestion(small, choices) : hint));
}

int64_t integer_bound(double bound) {
  return bound >= 9e18 ? INT64_MAX : static_cast<int64_t>(bound);
}

double number_bound(double bound) { return bound >= 1e300 ? HUGE_VAL : bound; }

std::string text_of(bool value) { return value ? "true" : "false"; }
std::string text_of(int64_t value) { return formatted("{}", value); }
std::string text_of(double value) { return number_text(value); }
std::string text_of(const std::string& value) { return value; }
template <class T>
std::string text_of(const std::optional<T>& value) {
  return value ? text_of(*value) : "auto";
}

}  // namespace

const Setting* find_setting(std::string_view key) {
  std::string dashed(key);
  std::replace(dashed.begin(), dashed.end(), '_', '-');
  const auto rows = all_settings();
  const auto row =
      std::find_if(rows.begin(), rows.end(), [&](const Setting& s) { return s.key == dashed; });
  return row == rows.end() ? nullptr : &*row;
}

std::string environment_name(const Setting& setting) {
  std::string name = "LATHE_";
  for (const char c : setting.key) name += c == '-' ? '_' : static_cast<char>(c - 'a' + 'A');
  return name;
}

std::string data_root_hint(std::string_view word) {
  std::error_code unreadable;  // then there is no hint
  return std::filesystem::exists(word, unreadable)
             ? formatted("; did you mean --data-root {}?", word)
             : "";
}

void assign(Settings& settings, const Setting& setting, std::string_view name,
            std::string_view text) {
  const auto integer = [&] {
    return parse_integer(name, text, integer_bound(setting.min), integer_bound(setting.max));
  };
  const auto number = [&] {
    return parse_number(name, text, number_bound(setting.min), number_bound(setting.max));
  };
  const auto word = [&] {
    check_choice(setting, name, text);
    return std::string(text);
  };
  std::visit(Overloaded{
                 [&](bool Settings::*m) { settings.*m = parse_switch(name, text); },
                 [&](int64_t Settings::*m) { settings.*m = integer(); },
                 [&](double Settings::*m) { settings.*m = number(); },
                 [&](std::string Settings::*m) { settings.*m = word(); },
                 [&]<class T>(std::optional<T> Settings::*m) {
                   if (text == "auto") {
                     settings.*m = std::nullopt;
                   } else if constexpr (std::is_same_v<T, bool>) {
                     settings.*m = parse_switch(name, text);
                   } else if constexpr (std::is_same_v<T, int64_t>) {
                     settings.*m = integer();
                   } else if constexpr (std::is_same_v<T, double>) {
                     settings.*m = number();
                   } else {
                     settings.*m = word();
                   }
                 },
             },
             setting.target);
}

std::string value_text(const Settings& settings, const Setting& setting) {
  return std::visit([&](auto member) { return text_of(settings.*member); }, setting.target);
}

}  // namespace lathe::cli
