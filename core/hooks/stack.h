// Where a call came from: return addresses, taken quickly, and their names, looked up when somebody
// reads them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "lathe/core/config.h"

namespace lathe::profile {

/// The most frames that call_stack() returns.
inline constexpr size_t kMostFrames = 127;

/// The return addresses of the calling thread, innermost first, at most `limit` and kMostFrames.
/// The first is that of the caller. Allocates the result and nothing else after the first call.
LATHE_API std::vector<void*> call_stack(size_t limit = 48);

/// The line of source behind a return address. What is not known is empty or 0.
struct LATHE_API Frame {
  std::string function;  // "train(lathe::Tensor const&)"
  std::string file;  // "/home/me/train.cpp"; needs debug information and libdw, see line_reader()
  int line = 0;

  /// True if the function is part of this library or of C++'s, and not a program's own.
  bool is_of_library() const;
};

/// throws: std::bad_alloc.
LATHE_API Frame frame_of(void* return_address);

/// The line of the program that called the library, as text:
/// "train.cpp:42 (train(lathe::Tensor const&))", "train(lathe::Tensor const&)",
/// "train + 0x1234" without names, or "" if the stack has no such line.
LATHE_API std::string user_call(std::span<void* const> stack);

/// Where the program called the library.
struct CallPlace {
  std::string layer;  // whose forward pass made the call: "Net.conv1"; empty outside of any
  std::string call;   // "train.cpp:42 (train())", see user_call()
  std::string file;   // its full path; empty without debug information or libdw
  int line = 0;
};
/// The innermost frame that is not of this library. If the stack has none, only `layer` is set.
LATHE_API CallPlace call_place(std::span<void* const> stack, std::string layer);

/// How files and lines are found: "libdw.so.1", or "" if that library is not installed. It is
/// loaded when the first frame is looked up.
LATHE_API std::string line_reader();

}  // namespace lathe::profile
