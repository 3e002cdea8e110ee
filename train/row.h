// Row: named values in order. One type for JSON lines, metrics files and tables.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "lathe/core/config.h"

namespace lathe::train {

/// Values of four types under names. `add` may be chained.
class LATHE_API Row {
 public:
  using Value = std::variant<bool, int64_t, double, std::string>;

  Row& add(std::string name, bool value) { return put(std::move(name), value); }
  Row& add(std::string name, int64_t value) { return put(std::move(name), value); }
  Row& add(std::string name, int value) { return put(std::move(name), int64_t{value}); }
  Row& add(std::string name, double value) { return put(std::move(name), value); }
  Row& add(std::string name, std::string value) { return put(std::move(name), std::move(value)); }
  Row& add(std::string name, const char* value) { return put(std::move(name), std::string(value)); }

  const std::vector<std::pair<std::string, Value>>& values() const { return values_; }

 private:
  // Not inline: if g++ 14 sees both the making and the move of a Value, it warns that the
  // alternatives which the Value does not hold are uninitialised.
  Row& put(std::string name, Value value);

  std::vector<std::pair<std::string, Value>> values_;
};

/// {"epoch":1,"loss":2.3}; numbers with all their digits, nan and inf as null. `indent` >= 0 puts
/// each value on a line of its own.
LATHE_API std::string to_json(const Row& row, int indent = -1);

/// "epoch,loss" and "1,2.3", as in RFC 4180; nan and inf as an empty field.
LATHE_API std::string csv_header(const Row& row);
LATHE_API std::string csv_line(const Row& row);

}  // namespace lathe::train
