// See warp.h.
#include "warp.h"

#include <cxxabi.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>

#include "lathe/core/error.h"
#include "lathe/core/hexadecimal.h"
#include "values.h"

namespace lathe::ptx {

namespace {

std::string readable(const std::string& symbol) {
  int status = 0;
  char* text = abi::__cxa_demangle(symbol.c_str(), nullptr, nullptr, &status);
  std::string name = status == 0 ? text : symbol;
  std::free(text);
  return name;
}

std::string text_of(Size3 at) { return concat("(", at.x, ",", at.y, ",", at.z, ")"); }

Size3 position(unsigned thread, Size3 size) {
  return {thread % size.x, thread / size.x % size.y, thread / (size.x * size.y)};
}

constexpr const char* kSpaceNames[] = {"memory", "parameters", "shared memory", "local memory"};

}  // namespace

int SharedMemory::read(int thread, size_t at, size_t bytes, void* value, uint32_t& words) {
  int other = -1;
  for (size_t k = at; k < at + bytes; ++k) {
    Seen& seen = seen_[k];
    if (seen.write_epoch == 0 || !seen.defined) words &= ~(uint32_t{1} << (k - at) / 4);
    if (seen.write_epoch == epoch_ && seen.writer != thread) other = seen.writer;
    const bool several = seen.read_epoch == epoch_ && seen.reader != thread;
    seen.reader = static_cast<int16_t>(several ? -2 : thread);
    seen.read_epoch = epoch_;
  }
  std::memcpy(value, &bytes_[at], bytes);
  return other;
}

int SharedMemory::write(int thread, size_t at, size_t bytes, const void* value, uint32_t words) {
  int other = -1;
  const auto* from = static_cast<const std::byte*>(value);
  for (size_t k = at; k < at + bytes; ++k) {
    Seen& seen = seen_[k];
    // Several threads may write the same, and nobody can tell which of them was last.
    const bool changes = bytes_[k] != from[k - at];
    if (seen.write_epoch == epoch_ && seen.writer != thread && changes) other = seen.writer;
    if (seen.read_epoch == epoch_ && seen.reader != thread) {
      other = seen.reader >= 0 ? seen.reader : thread ^ 1;
    }
    seen.writer = static_cast<int16_t>(thread);
    seen.write_epoch = epoch_;
    seen.defined = (words >> (k - at) / 4 & 1) != 0;
    bytes_[k] = from[k - at];
  }
  return other;
}

Frame::Frame(const Function& f)
    : function(&f),
      registers(f.register_names.size()),
      defined(f.register_names.size(), halves(0)),
      predicates(f.predicate_names.size()),
      predicates_defined(f.predicate_names.size()) {}

Warp::Warp(const Launch& launch, SharedMemory& shared, Work& all_work, Size3 block, int index,
           uint32_t lanes)
    : work(all_work),
      launch_(&launch),
      shared_(&shared),
      block_(block),
      index_(index),
      live_(lanes),
      local_(launch.kernel->local_bytes * kLanes),
      local_defined_(launch.kernel->local_bytes * kLanes) {}

void Warp::fill_specials(Frame& top) const {
  const Size3 size = launch_->block, grid = launch_->grid;
  for (const Special& special : top.function->specials) {
    Register& value = top.registers[static_cast<size_t>(special.reg)];
    top.defined[static_cast<size_t>(special.reg)] = halves(kAllLanes);
    const std::string name = special.name.substr(0, special.name.find('.'));
    const char axis = special.name.back();
    const auto of = [&](Size3 v) { return axis == 'x' ? v.x : axis == 'y' ? v.y : v.z; };
    for (int l = 0; l < kLanes; ++l) {
      const auto lane = static_cast<size_t>(l);
      if (name == "%tid") value[lane] = of(position(static_cast<unsigned>(thread(l)), size));
      if (name == "%ntid") value[lane] = of(size);
      if (name == "%ctaid") value[lane] = of(block_);
      if (name == "%nctaid") value[lane] = of(grid);
      if (name == "%laneid") value[lane] = static_cast<uint64_t>(l);
    }
  }
}

void Warp::enter(Frame& top) {
  fill_specials(top);
  frame = &top;
}

const uint64_t* Warp::take(const Instruction& i, int operand, Defined& defined) const {
  const int32_t number = i.operand[operand];
  if (number < 0) return frame->function->constants[static_cast<size_t>(~number)].data();
  defined = defined & frame->defined[static_cast<size_t>(number)];
  return frame->registers[static_cast<size_t>(number)].data();
}

const uint64_t* Warp::read(const Instruction& i, int operand, uint32_t lanes) {
  const int32_t number = i.operand[operand];
  Defined defined;
  const uint64_t* values = take(i, operand, defined);
  const bool wide = number >= 0 && frame->function->is_wide[static_cast<size_t>(number)];
  without_ |= lanes & ~(wide ? defined.both() : defined.low);
  return values;
}

const uint64_t* Warp::need(const Instruction& i, int operand, uint32_t lanes) const {
  Defined defined;
  const uint64_t* values = take(i, operand, defined);
  const auto at = static_cast<size_t>(i.operand[operand]);
  const bool wide = i.operand[operand] >= 0 && frame->function->is_wide[at];
  const uint32_t without = lanes & ~(wide ? defined.both() : defined.low);
  if (without != 0) fail_without(i, without, frame->function->register_names[at]);
  return values;
}

void Warp::fail_without(const Instruction& i, uint32_t lanes, const std::string& name) const {
  std::string what = name + " has no value here";
  if (undefined_load_line_ != 0) {
    what += concat(", perhaps because of line ", undefined_load_line_,
                   ", which read what nobody wrote");
  }
  fail(i, std::countr_zero(lanes), what);
}

uint64_t* Warp::write(const Instruction& i, int operand, uint32_t lanes, Defined defined) {
  const auto at = static_cast<size_t>(i.operand[operand]);
  const uint32_t with = lanes & ~without_;
  Defined& now = frame->defined[at];
  now = {(now.low & ~lanes) | (defined.low & with), (now.high & ~lanes) | (defined.high & with)};
  return frame->registers[at].data();
}

uint32_t Warp::take_predicate(const Instruction& i, int operand, uint32_t& defined) const {
  const int32_t number = i.operand[operand];
  if (number < 0) return number == -1 ? 0 : kAllLanes;
  defined &= frame->predicates_defined[static_cast<size_t>(number)];
  return frame->predicates[static_cast<size_t>(number)];
}

uint32_t Warp::read_predicate(const Instruction& i, int operand, uint32_t lanes) {
  uint32_t defined = kAllLanes;
  const uint32_t bits = take_predicate(i, operand, defined);
  without_ |= lanes & ~defined;
  return bits;
}

uint32_t Warp::need_predicate(const Instruction& i, int32_t number, uint32_t lanes) const {
  const auto at = static_cast<size_t>(number);
  const uint32_t without = lanes & ~frame->predicates_defined[at];
  if (without != 0) fail_without(i, without, frame->function->predicate_names[at]);
  return frame->predicates[at];
}

void Warp::write_predicate(const Instruction& i, int operand, uint32_t lanes, uint32_t bits,
                           uint32_t defined) {
  const auto at = static_cast<size_t>(i.operand[operand]);
  uint32_t& now = frame->predicates_defined[at];
  frame->predicates[at] = (frame->predicates[at] & ~lanes) | (bits & lanes);
  now = (now & ~lanes) | (lanes & defined & ~without_);
}

bool Warp::all_inside(const Register& addresses, uint32_t lanes, size_t bytes) const {
  uint64_t low = ~uint64_t{0}, high = 0, every = 0;
  each(lanes, [&](int l) {
    const uint64_t at = addresses[static_cast<size_t>(l)];
    low = std::min(low, at);
    high = std::max(high, at);
    every |= at;
  });
  return (every & (bytes - 1)) == 0 && launch_->memory->holds(low, high - low + bytes);
}

void Warp::check(const Instruction& i, int lane, uint64_t address, size_t bytes,
                 const char* does) const {
  const char* const space = kSpaceNames[static_cast<size_t>(i.space)];
  if (address % bytes != 0) {
    fail(i, lane,
         concat(does, bytes, " bytes of ", space, " at ", hexadecimal(address),
                ", which is not a multiple of ", bytes));
  }
  size_t size = launch_->params.size();
  if (i.space == Space::kGeneric) {
    if (launch_->memory->holds(address, bytes)) return;
    fail(i, lane,
         concat(does, bytes, " bytes at ", hexadecimal(address), ": ",
                launch_->memory->describe(address)));
  }
  if (i.space == Space::kShared) size = shared_->size();
  if (i.space == Space::kLocal) size = launch_->kernel->local_bytes;
  if (address > size || size - address < bytes) {
    fail(i, lane,
         concat(does, bytes, " bytes at ", address, " of ", space, ", which has ", size, " bytes"));
  }
}

void Warp::load(const Instruction& i, int lane, uint64_t address, size_t bytes, void* to,
                uint32_t& words) {
  check(i, lane, address, bytes, "reads ");
  if (i.space == Space::kGeneric) {
    std::memcpy(to, reinterpret_cast<const void*>(address), bytes);
  } else if (i.space == Space::kParam) {
    std::memcpy(to, &launch_->params[address], bytes);
  } else if (i.space == Space::kShared) {
    const int other = shared_->read(thread(lane), address, bytes, to, words);
    if (other >= 0) {
      fail(i, lane,
           concat("reads shared memory that thread ", other,
                  " of the block wrote since the last barrier"));
    }
  } else {
    const size_t at = static_cast<size_t>(lane) * launch_->kernel->local_bytes + address;
    for (size_t k = 0; k < bytes; ++k) {
      if (!local_defined_[at + k]) words &= ~(uint32_t{1} << k / 4);
    }
    std::memcpy(to, &local_[at], bytes);
  }
  if (words != ~uint32_t{0}) undefined_load_line_ = i.line;
}

void Warp::store(const Instruction& i, int lane, uint64_t address, size_t bytes, const void* from,
                 uint32_t words) {
  check(i, lane, address, bytes, "writes ");
  if (i.space == Space::kGeneric) {
    std::memcpy(reinterpret_cast<void*>(address), from, bytes);
  } else if (i.space == Space::kShared) {
    const int other = shared_->write(thread(lane), address, bytes, from, words);
    if (other >= 0) {
      fail(i, lane,
           concat("writes shared memory that thread ", other,
                  " of the block used since the last barrier"));
    }
  } else {
    const size_t at = static_cast<size_t>(lane) * launch_->kernel->local_bytes + address;
    for (size_t k = 0; k < bytes; ++k) local_defined_[at + k] = (words >> k / 4 & 1) != 0;
    std::memcpy(&local_[at], from, bytes);
  }
}

void* Warp::atomic_word(const Instruction& i, int lane, uint64_t address, size_t bytes) {
  check(i, lane, address, bytes, "changes ");
  return reinterpret_cast<void*>(address);
}

void Warp::fail(const Instruction& i, int lane, const std::string& what) const {
  const Function& function = *frame->function;
  const Size3 at = position(static_cast<unsigned>(thread(lane)), launch_->block);
  LATHE_FAIL(StateError, readable(launch_->kernel->name), ", block ", text_of(block_), ", thread ",
             text_of(at), ", PTX line ", int64_t{i.line}, " `",
             i.line == 0 ? "" : function.lines[i.line - 1], "`: ", what);
}

}  // namespace lathe::ptx
