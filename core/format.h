// Text of values for messages: one `append_text` per type, found by argument-dependent lookup, and
// `concat`. Every op includes it, so it is small. Printing whole tensors is in
// core/tensor_print.cpp.
#pragma once

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>

#include "lathe/core/config.h"

namespace lathe {

LATHE_API void append_text(std::string& out, std::string_view text);
LATHE_API void append_text(std::string& out, const char* text);
LATHE_API void append_text(std::string& out, bool value);
LATHE_API void append_text(std::string& out, char value);
LATHE_API void append_text(std::string& out, int64_t value);
LATHE_API void append_text(std::string& out, uint64_t value);
LATHE_API void append_text(std::string& out, double value);  // shortest form that reads back equal

template <std::integral T>
requires(!std::same_as<T, bool> && !std::same_as<T, char> && !std::same_as<T, int64_t> &&
         !std::same_as<T, uint64_t>) void append_text(std::string& out, T value) {
  append_text(out, static_cast<int64_t>(value));
}
inline void append_text(std::string& out, float value) {
  append_text(out, static_cast<double>(value));
}

/// All arguments written one after another: concat("x has ", 3, " rows").
template <class... Args>
std::string concat(const Args&... args) {
  std::string out;
  (append_text(out, args), ...);
  return out;
}

/// A size for people: "0 bytes", "512 bytes", "1.5 KiB", "3.21 GiB".
LATHE_API std::string readable_bytes(uint64_t bytes);

}  // namespace lathe
