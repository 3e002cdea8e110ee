// The error types and how they are thrown. The library throws; it never aborts, exits or asserts on
// input. Form of a message:
//   <op>: <sentence with both values> (<name>: <dtype>[<shape>]@<device>, …)
#pragma once

#include <stdexcept>
#include <string>

#include "lathe/core/config.h"
#include "lathe/core/format.h"

namespace lathe {

/// Where an error was noticed: {"ops/conv2d.cpp", 14}.
struct SourcePlace {
  const char* file;
  int line;
};

/// The place of a line, with the last two components of the path. Computed at compile time, so that
/// messages do not name the build machine.
constexpr SourcePlace here(const char* path, int line) {
  const char* parts[2] = {path, path};
  for (const char* p = path; *p != '\0'; ++p) {
    if (*p == '/') {
      parts[0] = parts[1];
      parts[1] = p + 1;
    }
  }
  return {parts[0], line};
}

/// Base of everything Lathe throws. `what()` is the message, then the place on a line of its own.
class LATHE_API Error : public std::runtime_error {
 public:
  explicit Error(const std::string& message, SourcePlace place = {nullptr, 0});

  const char* what() const noexcept override { return text_.c_str(); }
  /// The sentence alone, without the place.
  const std::string& message() const noexcept { return message_; }

  /// Puts "<origin>: " before the message; `origin` is the path of the layer that threw. Only the
  /// first call has an effect.
  void set_origin(const std::string& origin);

 private:
  std::string message_, text_;
  bool has_origin_ = false;
};

// clang-format off
class LATHE_API ShapeError : public Error { using Error::Error; };           // sizes that do not fit
class LATHE_API DTypeError : public Error { using Error::Error; };           // a dtype that the op does not take
class LATHE_API DeviceError : public Error { using Error::Error; };          // wrong, mixed or missing device
class LATHE_API NoCudaError : public DeviceError { using DeviceError::DeviceError; };  // this build holds no CUDA backend
class LATHE_API ValueError : public Error { using Error::Error; };           // an option or number out of range
class LATHE_API IndexError : public Error { using Error::Error; };           // an index or dimension out of range
class LATHE_API StateError : public Error { using Error::Error; };           // calls in the wrong order; a second backward; a changed saved tensor
class LATHE_API OutOfMemoryError : public Error { using Error::Error; };     // any memory: host, pinned, device
class LATHE_API CudaError : public Error { using Error::Error; };            // a CUDA library call failed
class LATHE_API DataError : public Error { using Error::Error; };            // content of a data set or file
class LATHE_API FileError : public Error { using Error::Error; };            // opening, reading, writing
// clang-format on

/// Throws an `E` whose message is all arguments, written one after another. Out of line, to keep
/// callers small.
template <class E, class... Args>
[[noreturn, gnu::cold, gnu::noinline]] void fail(SourcePlace place, const Args&... args) {
  throw E(concat(args...), place);
}

}  // namespace lathe
