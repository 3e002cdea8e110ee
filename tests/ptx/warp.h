// The state of a running block: what an instruction's meaning reads and writes. Nothing here knows
// where an instruction stands in the flow; that is run.cpp.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "program.h"

namespace lathe::ptx {

struct Size3 {
  unsigned x = 1, y = 1, z = 1;
};

/// What a kernel may touch outside its block.
class Memory {
 public:
  virtual ~Memory() = default;
  /// Do all of these bytes lie in one buffer?
  virtual bool holds(uint64_t address, size_t bytes) const = 0;
  /// What is near an address that no buffer holds: "4 bytes behind the end of x, 64 bytes".
  virtual std::string describe(uint64_t address) const = 0;
};

struct Launch {
  const Function* kernel;
  const Memory* memory;
  Size3 grid, block;
  std::vector<std::byte> params;  // laid out as Function::param_offsets says
};

struct Work {
  uint64_t instructions = 0;  // of warps
  uint64_t accesses = 0;      // of lanes, to memory outside the block
  uint64_t bytes = 0;         // moved by these
  uint64_t widest = 0;        // bytes of the largest of them
};

/// Shared memory with what each byte has seen since the block began: for reads of what nobody
/// wrote, and for two threads that meet at a byte with no barrier between them.
class SharedMemory {
 public:
  explicit SharedMemory(size_t bytes) : bytes_(bytes), seen_(bytes) {}

  size_t size() const { return bytes_.size(); }
  void pass_barrier() { ++epoch_; }
  /// → the other thread of a race, or -1. `words`: a bit for each 4 bytes of the access, whether they
  /// have a value.
  int read(int thread, size_t at, size_t bytes, void* value, uint32_t& words);
  int write(int thread, size_t at, size_t bytes, const void* value, uint32_t words);

 private:
  struct Seen {
    uint32_t write_epoch = 0, read_epoch = 0;  // 0: never
    int16_t writer = -1, reader = -1;          // reader -2: several
    bool defined = false;
  };
  std::vector<std::byte> bytes_;
  std::vector<Seen> seen_;
  uint32_t epoch_ = 1;
};

/// Registers of a function that a warp runs.
struct Frame {
  explicit Frame(const Function& f);
  const Function* function;
  std::vector<Register> registers;
  std::vector<Defined> defined;      // of the registers
  std::vector<uint32_t> predicates;  // a bit for each lane
  std::vector<uint32_t> predicates_defined;
  uint32_t carry = 0;  // CC.CF
};

class Warp {
 public:
  Warp(const Launch& launch, SharedMemory& shared, Work& work, Size3 block, int index,
       uint32_t lanes);

  // Registers and predicates, by the numbers of Instruction::operand. A compiler computes ahead with
  // what may have no value and then takes another result, so an instruction that reads what has none
  // leaves none. It is an error where it would show: in an address, in what is stored, in a branch.
  /// Before each instruction.
  void begin() { without_ = 0; }
  const uint64_t* read(const Instruction& i, int operand, uint32_t lanes);
  /// An error where a lane of them has no value.
  const uint64_t* need(const Instruction& i, int operand, uint32_t lanes) const;
  /// For moves: clears the bits of lanes without a value in `defined`, for each half.
  const uint64_t* take(const Instruction& i, int operand, Defined& defined) const;
  uint64_t* write(const Instruction& i, int operand, uint32_t lanes, Defined defined = {});

  /// A predicate's bits for all lanes; -1 and -2 are false and true.
  uint32_t read_predicate(const Instruction& i, int operand, uint32_t lanes);
  uint32_t need_predicate(const Instruction& i, int32_t number, uint32_t lanes) const;
  uint32_t take_predicate(const Instruction& i, int operand, uint32_t& defined) const;
  void write_predicate(const Instruction& i, int operand, uint32_t lanes, uint32_t bits,
                       uint32_t defined = kAllLanes);

  /// Are the bytes at all of these addresses in one buffer outside the block, and aligned?
  bool all_inside(const Register& addresses, uint32_t lanes, size_t bytes) const;
  /// A lane's bytes at an address of the instruction's space; `words` as in SharedMemory. Misaligned
  /// or outside: an error.
  void load(const Instruction& i, int lane, uint64_t address, size_t bytes, void* to,
            uint32_t& words);
  void store(const Instruction& i, int lane, uint64_t address, size_t bytes, const void* from,
             uint32_t words);
  /// For an atomic operation of a lane: where its word is.
  void* atomic_word(const Instruction& i, int lane, uint64_t address, size_t bytes);

  /// Of the block's threads.
  int thread(int lane) const { return index_ * kLanes + lane; }
  uint32_t live_lanes() const { return live_; }
  void end(uint32_t lanes) {
    live_ &= ~lanes;
    some_ended_ = some_ended_ || lanes != 0;
  }
  bool some_ended() const { return some_ended_; }

  /// throws: StateError, naming kernel, block, thread and line.
  [[noreturn]] void fail(const Instruction& i, int lane, const std::string& what) const;

  /// Makes `top` the frame of the function that runs now.
  void enter(Frame& top);

  Frame* frame = nullptr;
  Work& work;

 private:
  void fill_specials(Frame& top) const;
  [[noreturn]] void fail_without(const Instruction& i, uint32_t lanes,
                                 const std::string& name) const;
  void check(const Instruction& i, int lane, uint64_t address, size_t bytes,
             const char* does) const;

  const Launch* launch_;
  SharedMemory* shared_;
  Size3 block_;
  int index_;
  uint32_t live_;
  bool some_ended_ = false;
  std::vector<std::byte> local_;  // of all lanes
  std::vector<bool> local_defined_;
  uint32_t without_ = 0;              // lanes that read what has no value, in this instruction
  uint32_t undefined_load_line_ = 0;  // the last load of what had no value
};

}  // namespace lathe::ptx
