// Numbers as text, and byte counts for people.
#include "lathe/core/format.h"

#include <charconv>
#include <cmath>

namespace lathe {

namespace {
template <class T>
void append_number(std::string& out, T value) {
  char buffer[40];
  const auto result = std::to_chars(buffer, buffer + sizeof buffer, value);
  out.append(buffer, result.ptr);
}
}  // namespace

void append_text(std::string& out, std::string_view text) { out.append(text); }
void append_text(std::string& out, const char* text) { out.append(text); }
void append_text(std::string& out, bool value) { out.append(value ? "true" : "false"); }
void append_text(std::string& out, char value) { out.push_back(value); }
void append_text(std::string& out, int64_t value) { append_number(out, value); }
void append_text(std::string& out, uint64_t value) { append_number(out, value); }
void append_text(std::string& out, double value) {
  if (std::isnan(value)) {
    out.append("nan");
  } else {
    append_number(out, value);
  }
}

std::string readable_bytes(uint64_t bytes) {
  if (bytes < 1024) return concat(bytes, bytes == 1 ? " byte" : " bytes");
  static constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  double value = static_cast<double>(bytes) / 1024;
  int unit = 0;
  for (; value >= 1024 && unit < 5; ++unit) value /= 1024;
  return concat(std::round(value * 100) / 100, " ", kUnits[unit]);
}

}  // namespace lathe
