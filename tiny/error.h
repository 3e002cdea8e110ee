// Errors: a sentence with the values in it, and a type that a caller can catch.
#pragma once

#include <concepts>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace tiny {

/// what() begins with the function that was called wrongly, or the file that is wrong.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
// clang-format off
struct ShapeError final : Error { using Error::Error; };        // shapes that do not fit
struct ValueError final : Error { using Error::Error; };        // a number out of its range
struct StateError final : Error { using Error::Error; };        // a call at the wrong time
struct DataError final : Error { using Error::Error; };         // a file that is not as it should be
struct OutOfMemoryError final : Error { using Error::Error; };
// clang-format on

inline void append(std::string& text, const std::string& part) { text += part; }
inline void append(std::string& text, std::integral auto part) { text += std::to_string(part); }
inline void append(std::string& text, double part) { text += std::to_string(part); }
inline void append(std::string& text, const std::vector<int64_t>& part) {  // a shape: [2,3]
  text += '[';
  for (size_t i = 0; i < part.size(); ++i) text += (i > 0 ? "," : "") + std::to_string(part[i]);
  text += ']';
}

/// Throws E with the parts as one text, unless `ok`.
template <class E, class... Parts>
void check(bool ok, const Parts&... parts) {
  if (ok) return;
  std::string text;
  (append(text, parts), ...);
  throw E(text);
}

}  // namespace tiny

// What the real one adds, and why
// - core/error.h: LATHE_CHECK is a macro. A function's arguments are computed at every call, those
//   of this macro only if the check fails. A macro also knows the file and line of its call.
// - A tensor prints as f32[64,3,3,3]@cuda:0: type and device are wrong as often as the shape.
