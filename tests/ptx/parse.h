// From a function's text to instructions.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "module.h"

namespace lathe::ptx {

/// `at` is where ".entry" or ".func" stands in the module's text; `local_base` is where its local
/// memory begins.   throws: ValueError as Module::kernel.
Function parse_function(const Module& module, const std::string& name, size_t at,
                        size_t local_base = 0);

/// Reads one function, statement by statement.
class Parser {
 public:
  Parser(const Module& module, const std::string& name, size_t at, size_t local_base);
  Function finish();

 private:
  struct Symbol {
    enum class Kind { kRegister, kPredicate, kParam, kShared, kLocal, kSlot } kind;
    int64_t value = 0;  // a register's number, or an offset
  };
  using Scope = std::map<std::string, Symbol, std::less<>>;

  [[noreturn]] void fail(const std::string& what) const;
  void read_header();
  void read_body();
  void read_statement(std::string_view statement);
  void declare(std::string_view statement);
  void declare_registers(std::string_view type, std::string_view names);
  std::string declare_param(std::string_view statement);
  void read_instruction(std::string_view statement);
  void read_call(Instruction& i, std::string_view operands);
  void read_memory(Instruction& i, std::string& name, const std::vector<std::string>& operands);
  void read_move(Instruction& i, std::string& name, const std::vector<std::string>& operands);
  void read_branch(Instruction& i, std::string_view operands);

  int32_t new_register(const std::string& name, bool is_wide = false);
  int32_t constant(uint64_t bits);
  int32_t slot(const std::string& name, int64_t offset);
  const Symbol* find(std::string_view name) const;
  /// A register, predicate, special register, number or symbol, as Instruction::operand holds it.
  int32_t operand(std::string_view text, bool predicates);
  void add_operands(Instruction& i, std::string_view text, bool predicates);
  /// "[base+8]" or "base+8".
  struct Address {
    std::string base;
    int64_t offset;
  };
  Address address(std::string_view text) const;

  const Module& module_;
  std::string_view text_;  // of the function, from its directive to its closing brace
  size_t body_ = 0;
  uint32_t line_ = 1;
  bool is_kernel_;
  Function made_;
  std::vector<Scope> scopes_;
  std::map<std::string, uint32_t, std::less<>> labels_;
  std::vector<std::pair<size_t, std::string>> jumps_;  // instruction → label
  std::map<uint64_t, int32_t> constant_numbers_;
  size_t local_base_;
};

}  // namespace lathe::ptx
