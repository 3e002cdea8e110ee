// PTX as the interpreter runs it: a kernel's instructions, each with the function that carries it
// out. parse.h makes it from text, run.h runs it; instructions.h is the list of what is known.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace lathe::ptx {

inline constexpr int kLanes = 32;
inline constexpr uint32_t kAllLanes = ~uint32_t{0};

/// A register of a warp: the bits of each lane. Above its type's width they mean nothing.
using Register = std::array<uint64_t, kLanes>;

/// The lanes that have a value in a register, as a bit each: below, in its lower 32 bits; above, in
/// its upper 32. Structures with padding travel in registers of which one half has none.
struct Defined {
  uint32_t low = kAllLanes, high = kAllLanes;
  uint32_t both() const { return low & high; }
  friend Defined operator&(Defined a, Defined b) { return {a.low & b.low, a.high & b.high}; }
};
/// The same of both halves.
inline Defined halves(uint32_t lanes) { return {lanes, lanes}; }

struct Instruction;
struct Function;
class Warp;

/// Carries an instruction out for the lanes whose bits are set.
using Meaning = void (*)(Warp& warp, const Instruction& instruction, uint32_t lanes);

enum class Space : uint8_t { kGeneric, kParam, kShared, kLocal };

/// How an instruction directs its warp; everything but kNone ends a straight run of instructions.
enum class Control : uint8_t { kNone, kBranch, kReturn, kBarrier, kWarpBarrier, kCall };

/// Operands are numbers of registers, of predicates, or, below zero, of constants (~number). Those
/// in braces count one by one. An address is its register and `offset`.
struct Instruction {
  Meaning run = nullptr;
  Control control = Control::kNone;
  Space space = Space::kGeneric;
  uint8_t count = 0;   // of operands
  uint8_t vector = 1;  // elements that a load or store moves
  int32_t operand[9] = {};
  int64_t offset = 0;  // of the address
  int32_t guard = -1;  // the predicate of @%p, -1: none
  bool guard_negated = false;
  uint32_t target = 0;  // of a branch, as a number of an instruction
  int32_t callee = -1;  // in Function::callees
  uint32_t line = 0;    // in the kernel's text, from 1
};

/// A call's arguments are registers: pairs of caller's and callee's, before and after.
struct Call {
  std::shared_ptr<const Function> function;
  std::vector<std::pair<int32_t, int32_t>> arguments, results;
};

/// A special register that the kernel reads, such as %tid.x.
struct Special {
  std::string name;
  int32_t reg;
};

struct Function {
  std::string name;
  std::vector<Instruction> code;
  std::vector<std::string> lines;  // of its text, for messages
  std::vector<Register> constants;
  std::vector<std::string> register_names, predicate_names;
  std::vector<bool> is_wide;  // registers of 64 bits
  std::vector<Special> specials;
  std::vector<Call> callees;
  std::vector<std::string> inputs, outputs;  // of a .func, by the names of its parameters
  std::map<std::pair<std::string, int64_t>, int32_t> slots;  // parameter and offset → register
  std::vector<size_t> param_offsets;  // of a kernel's parameters in its parameter space
  std::vector<size_t> param_sizes;
  size_t param_bytes = 0, shared_bytes = 0, local_bytes = 0;
  size_t max_threads = 1024;  // .maxntid
};

}  // namespace lathe::ptx
