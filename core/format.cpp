// Text of values for messages; see format.h.
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

}  // namespace lathe
