// The text of a PTX module, as nvcc makes one of each .cu file: which kernels it has, its global
// constants, and its functions as instructions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "program.h"

namespace lathe::ptx {

class Module {
 public:
  /// throws: ValueError, naming the line, where the text is not PTX as nvcc writes it.
  explicit Module(std::string text);

  /// Symbols of all .entry functions, sorted.
  std::vector<std::string> kernels() const;
  /// A kernel, parsed when it is asked for the first time.
  /// throws: ValueError, naming kernel and line: an unknown instruction, symbol or directive; no
  /// such kernel.
  const Function& kernel(const std::string& name);

  /// Is this in a .global or .const variable of the module?
  bool holds(uint64_t address, size_t bytes) const;

 private:
  void read_number(std::string_view statement);
  void read_variable(std::string_view statement);

  std::string text_;
  std::map<std::string, size_t, std::less<>> kernels_, functions_;  // where their texts begin
  std::map<std::string, std::vector<std::byte>, std::less<>> variables_;
  std::map<std::string, std::string, std::less<>> shared_;  // declarations that all kernels see
  std::map<std::string, std::unique_ptr<const Function>> parsed_;

  friend class Parser;
};

}  // namespace lathe::ptx
