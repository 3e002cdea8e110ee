// See module.h; the bodies of functions are read by parse.cpp.
#include "module.h"

#include <algorithm>
#include <charconv>
#include <cstring>

#include "lathe/core/error.h"
#include "parse.h"

namespace lathe::ptx {

namespace {

bool part_of_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         c == '$';
}

/// The name before the next '(' that follows it, for ".entry f(" and ".func (.param …) f(".
std::string name_from(std::string_view text, size_t at) {
  at = text.find_first_not_of(" \t\n", at);
  if (text[at] == '(') at = text.find_first_not_of(" \t\n", text.find(')', at) + 1);
  size_t end = at;
  while (end < text.size() && part_of_name(text[end])) ++end;
  return std::string(text.substr(at, end - at));
}

/// Is this a declaration, which ends before a body begins?
bool only_declared(std::string_view text, size_t at) {
  return text.find(';', at) < text.find('{', at);
}

size_t number_in(std::string_view text, size_t at) {
  size_t value = 0;
  std::from_chars(text.data() + at, text.data() + text.size(), value);
  return value;
}

}  // namespace

Module::Module(std::string text) : text_(std::move(text)) {
  const std::string_view all = text_;
  for (size_t at = 0; at < all.size();) {
    const size_t end = std::min(all.find('\n', at), all.size());
    const std::string_view line = all.substr(at, end - at);
    if (line.find(".entry ") != line.npos) {
      kernels_[name_from(all, at + line.find(".entry ") + 7)] = at;
    } else if (line.find(".func ") != line.npos) {
      if (!only_declared(all, at)) functions_[name_from(all, at + line.find(".func ") + 6)] = at;
    } else if (line.starts_with(".shared ")) {
      const std::string_view statement = all.substr(at, all.find(';', at) - at);
      shared_[name_from(statement, statement.find_last_of(' '))] = statement;
    } else if (line.starts_with(".global ") || line.starts_with(".const ")) {
      read_variable(all.substr(at, all.find(';', at) - at));
    }
    at = end + 1;
  }
}

/// .global .align 4 .u32 name = 11, or .f32 name = 0f3F800000: a constant that NVRTC puts into PTX
void Module::read_number(std::string_view statement) {
  const size_t equals = std::min(statement.find('='), statement.size());
  const size_t end = statement.find_last_not_of(' ', equals - 1) + 1;
  const size_t name = statement.rfind(' ', end - 1), type = statement.rfind('.', name);
  const size_t bits = type == statement.npos ? 0 : number_in(statement, type + 2);
  LATHE_CHECK(ValueError, bits == 8 || bits == 16 || bits == 32 || bits == 64,
              "ptx: a variable that is neither an array of bytes nor a number: ", statement);
  size_t digits = statement.find_first_of("-0123456789", equals);
  uint64_t value = 0;
  if (digits != statement.npos) {
    const char* const stop = statement.data() + statement.size();
    const bool is_float = statement[type + 1] == 'f', is_negative = statement[digits] == '-';
    if (is_float) digits += 2;  // 0f or 0d, then the bits
    if (is_negative) ++digits;
    std::from_chars(statement.data() + digits, stop, value, is_float ? 16 : 10);
    if (is_negative) value = 0 - value;
  }
  std::vector<std::byte> bytes(bits / 8);
  std::memcpy(bytes.data(), &value, bytes.size());
  variables_[std::string(statement.substr(name + 1, end - name - 1))] = std::move(bytes);
}

/// .global .align 4 .b8 name[24] = {65, 144, …}
void Module::read_variable(std::string_view statement) {
  const size_t open = statement.find('['), type = statement.find(".b8 ");
  if (open == statement.npos) return read_number(statement);
  LATHE_CHECK(ValueError, type != statement.npos,
              "ptx: an array of other elements than bytes: ", statement);
  const std::string name = name_from(statement, type + 4);
  // Aligned by operator new for all that the declarations ask.
  std::vector<std::byte> bytes(number_in(statement, open + 1));
  size_t at = statement.find('{');
  for (size_t k = 0; at != statement.npos && k < bytes.size(); ++k) {
    at = statement.find_first_of("0123456789", at);
    if (at == statement.npos) break;
    bytes[k] = static_cast<std::byte>(number_in(statement, at));
    at = statement.find(',', at);
  }
  variables_[name] = std::move(bytes);
}

std::vector<std::string> Module::kernels() const {
  std::vector<std::string> names;
  for (const auto& [name, at] : kernels_) names.push_back(name);
  return names;
}

const Function& Module::kernel(const std::string& name) {
  auto& parsed = parsed_[name];
  if (parsed == nullptr) {
    const auto found = kernels_.find(name);
    LATHE_CHECK(ValueError, found != kernels_.end(), "ptx: no kernel ", name);
    parsed = std::make_unique<const Function>(parse_function(*this, name, found->second));
  }
  return *parsed;
}

bool Module::holds(uint64_t address, size_t bytes) const {
  return std::ranges::any_of(variables_, [&](const auto& variable) {
    const auto begin = reinterpret_cast<uint64_t>(variable.second.data());
    return address >= begin && address + bytes <= begin + variable.second.size();
  });
}

}  // namespace lathe::ptx
