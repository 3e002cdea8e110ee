// Files and lines of addresses in this process, from the debug information that programs and
// libraries carry, by elfutils' libdw. It is loaded when it is first needed; without it, or in a
// program without debug information, nothing is found. Never asks a network.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace lathe::profile {

struct SourceLine {
  std::string function;  // mangled; "" if unknown, and often for a function of internal linkage
  std::string file;
  int line = 0;
};

/// What is known about an address of code, innermost first: the functions that the compiler put
/// inline there, each with the line that it has reached, then the function of the symbol table. At
/// least one. Thread-safe.
std::vector<SourceLine> lines_of(uintptr_t address);

/// The name of the library, or "" if it cannot be loaded.
std::string line_library();

}  // namespace lathe::profile
