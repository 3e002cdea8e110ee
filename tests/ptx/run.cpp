// See run.h.
#include "run.h"

#include <algorithm>
#include <bit>
#include <deque>
#include <vector>

#include "lathe/core/ceil_div.h"
#include "lathe/core/error.h"
#include "values.h"

namespace lathe::ptx {

namespace {

constexpr uint64_t kMostInstructions = uint64_t{1} << 28;  // of a warp: a loop without an end

enum class Waits { kNo, kForBlock, kForWarp };

/// Lanes that stand at the same instruction.
struct Group {
  uint32_t pc, lanes;
  Waits waits = Waits::kNo;
};

/// How a warp goes through a function.
class Flow {
 public:
  Flow(Warp& warp, Frame& frame, uint32_t lanes, bool is_kernel)
      : warp_(warp), frame_(frame), is_kernel_(is_kernel), groups_{{0, lanes}} {}

  /// Until every lane has ended or waits for something outside.
  void go_on();
  std::vector<Group>& groups() { return groups_; }

 private:
  void go_on(Group group);
  bool direct(Group& group, const Instruction& i);
  void branch(Group& group, const Instruction& i, uint32_t lanes);
  bool meet(Group& group, const Instruction& i);
  void call(const Instruction& i, uint32_t lanes);
  void put(Group group);
  uint32_t guarded(const Instruction& i, uint32_t lanes);

  Warp& warp_;
  Frame& frame_;
  bool is_kernel_;
  uint64_t executed_ = 0;
  std::vector<Group> groups_;
};

void Flow::put(Group group) {
  if (group.lanes == 0) return;
  for (Group& other : groups_) {
    if (other.pc != group.pc) continue;
    other.lanes |= group.lanes;
    if (group.waits == Waits::kNo) other.waits = Waits::kNo;  // together they look again
    return;
  }
  groups_.push_back(group);
}

void Flow::go_on() {
  warp_.frame = &frame_;
  for (;;) {
    auto first = groups_.end();
    for (auto at = groups_.begin(); at != groups_.end(); ++at) {
      if (at->waits == Waits::kNo && (first == groups_.end() || at->pc < first->pc)) first = at;
    }
    if (first == groups_.end()) return;
    const Group group = *first;
    groups_.erase(first);
    go_on(group);
  }
}

uint32_t Flow::guarded(const Instruction& i, uint32_t lanes) {
  if (i.guard == -1) return lanes;
  const uint32_t bits = warp_.need_predicate(i, i.guard, lanes);
  return lanes & (i.guard_negated ? ~bits : bits);
}

/// Up to where another group stands, a wait, or a branch while there are others.
void Flow::go_on(Group group) {
  uint32_t limit = ~uint32_t{0};
  for (const Group& other : groups_) {
    if (other.pc > group.pc) limit = std::min(limit, other.pc);
  }
  const std::vector<Instruction>& code = frame_.function->code;
  while (group.pc < limit) {
    const Instruction& i = code[group.pc];
    warp_.begin();
    ++warp_.work.instructions;
    if (++executed_ > kMostInstructions) {
      warp_.fail(i, std::countr_zero(group.lanes), "the kernel does not end");
    }
    if (i.control == Control::kNone) {
      if (const uint32_t lanes = guarded(i, group.lanes); lanes != 0) i.run(warp_, i, lanes);
      ++group.pc;
    } else if (!direct(group, i)) {
      return;
    }
  }
  put(group);
}

/// False: the group was put away.
bool Flow::direct(Group& group, const Instruction& i) {
  const uint32_t lanes = guarded(i, group.lanes);
  switch (i.control) {
    case Control::kBranch:
      branch(group, i, lanes);
      if (groups_.empty()) return true;
      put(group);
      return false;
    case Control::kReturn:
      if (is_kernel_) warp_.end(lanes);
      group = {group.pc + 1, group.lanes & ~lanes};
      if (group.lanes != 0) return true;
      return false;
    case Control::kBarrier:
      if (!is_kernel_) warp_.fail(i, std::countr_zero(group.lanes), "a barrier in a function");
      put({group.pc, group.lanes, Waits::kForBlock});
      return false;
    case Control::kWarpBarrier:
      if (meet(group, i)) return true;
      put({group.pc, group.lanes, Waits::kForWarp});
      return false;
    case Control::kCall:
      if (lanes != 0) call(i, lanes);
      ++group.pc;
      return true;
    case Control::kNone: break;
  }
  return true;
}

void Flow::branch(Group& group, const Instruction& i, uint32_t lanes) {
  const uint32_t rest = group.lanes & ~lanes;
  if (lanes == 0) {
    ++group.pc;
  } else if (rest == 0) {
    group.pc = i.target;
  } else {
    put({i.target, lanes});
    group = {group.pc + 1, rest};
  }
}

/// Carries out what a whole member mask takes part in, once all of them are here.
bool Flow::meet(Group& group, const Instruction& i) {
  const uint64_t* masks = warp_.need(i, i.count - 1, group.lanes);
  const int first = std::countr_zero(group.lanes);
  const auto members = as<uint32_t>(masks[first]);
  each(group.lanes, [&](int lane) {
    if (as<uint32_t>(masks[lane]) != members || (members >> lane & 1) == 0) {
      warp_.fail(i, lane, "the member mask is not the same in all lanes, or leaves this one out");
    }
  });
  if (const uint32_t ended = members & ~warp_.live_lanes(); ended != 0) {
    warp_.fail(i, first, concat("waits for lane ", std::countr_zero(ended), ", which has ended"));
  }
  if ((members & ~group.lanes) != 0) return false;
  i.run(warp_, i, group.lanes);
  ++group.pc;
  return true;
}

void copy_registers(const std::vector<std::pair<int32_t, int32_t>>& pairs, Frame& from, Frame& to) {
  for (const auto& [a, b] : pairs) {
    to.registers[static_cast<size_t>(b)] = from.registers[static_cast<size_t>(a)];
    to.defined[static_cast<size_t>(b)] = from.defined[static_cast<size_t>(a)];
  }
}

void Flow::call(const Instruction& i, uint32_t lanes) {
  const Call& callee = frame_.function->callees[static_cast<size_t>(i.callee)];
  Frame inner(*callee.function);
  copy_registers(callee.arguments, frame_, inner);
  Flow flow(warp_, inner, lanes, false);
  flow.go_on();
  warp_.frame = &frame_;
  if (!flow.groups().empty()) {
    warp_.fail(i, std::countr_zero(lanes), "a lane of the called function waits for ever");
  }
  // Results of the lanes that called; the others keep what they had.
  for (const auto& [from, to] : callee.results) {
    const auto a = static_cast<size_t>(from), b = static_cast<size_t>(to);
    each(lanes, [&](int l) {
      frame_.registers[b][static_cast<size_t>(l)] = inner.registers[a][static_cast<size_t>(l)];
    });
    const Defined was = frame_.defined[b], is = inner.defined[a];
    frame_.defined[b] = {(was.low & ~lanes) | (is.low & lanes),
                         (was.high & ~lanes) | (is.high & lanes)};
  }
}

/// One block: its warps, and the barriers that they meet at.
class BlockRun {
 public:
  BlockRun(const Launch& launch, std::deque<Frame>& frames, Size3 block, Work& work);
  void run();

 private:
  bool release();

  SharedMemory shared_;
  std::deque<Warp> warps_;
  std::deque<Flow> flows_;
  const Function& kernel_;
};

BlockRun::BlockRun(const Launch& launch, std::deque<Frame>& frames, Size3 block, Work& work)
    : shared_(launch.kernel->shared_bytes), kernel_(*launch.kernel) {
  const unsigned threads = launch.block.x * launch.block.y * launch.block.z;
  const auto count = static_cast<size_t>(ceil_div<int64_t>(threads, kLanes));
  for (size_t k = 0; k < count; ++k) {
    if (frames.size() == k) frames.emplace_back(*launch.kernel);
    Frame& frame = frames[k];
    std::ranges::fill(frame.defined, halves(0));
    std::ranges::fill(frame.predicates_defined, 0u);
    const unsigned left = threads - static_cast<unsigned>(k) * kLanes;
    const uint32_t lanes = left >= kLanes ? kAllLanes : (uint32_t{1} << left) - 1;
    warps_.emplace_back(launch, shared_, work, block, static_cast<int>(k), lanes);
    warps_.back().enter(frame);
    flows_.emplace_back(warps_.back(), frame, lanes, true);
  }
}

void BlockRun::run() {
  do {
    for (Flow& flow : flows_) flow.go_on();
  } while (release());
}

/// Lets all threads pass the barrier at which they wait. False: all have ended.
bool BlockRun::release() {
  bool some_ended = false;
  const Group* first = nullptr;
  for (size_t k = 0; k < flows_.size(); ++k) {
    some_ended = some_ended || warps_[k].some_ended();
    if (first == nullptr && !flows_[k].groups().empty()) first = &flows_[k].groups().front();
  }
  if (first == nullptr) return false;
  const std::vector<Instruction>& code = kernel_.code;
  const uint32_t place = first->pc;
  for (size_t k = 0; k < flows_.size(); ++k) {
    for (Group& group : flows_[k].groups()) {
      const auto fail = [&](const std::string& what) {
        warps_[k].fail(code[group.pc], std::countr_zero(group.lanes), what);
      };
      if (group.waits == Waits::kForWarp) fail("waits for lanes of its mask that never come");
      if (some_ended) fail("waits at a barrier while other threads of the block have ended");
      if (group.pc != place) {
        fail(concat("waits here while other threads of the block wait at PTX line ",
                    int64_t{code[place].line}));
      }
      ++group.pc;
      group.waits = Waits::kNo;
    }
  }
  shared_.pass_barrier();
  return true;
}

}  // namespace

void run(const Launch& launch, Work& work) {
  const Function& kernel = *launch.kernel;
  const size_t threads = size_t{launch.block.x} * launch.block.y * launch.block.z;
  LATHE_CHECK(ValueError, threads > 0 && threads <= kernel.max_threads, kernel.name, ": ", threads,
              " threads in a block, at most ", kernel.max_threads);
  LATHE_CHECK(ValueError, launch.params.size() == kernel.param_bytes, kernel.name, ": ",
              launch.params.size(), " bytes of parameters, ", kernel.param_bytes, " are taken");
  std::deque<Frame> frames;
  for (unsigned z = 0; z < launch.grid.z; ++z) {
    for (unsigned y = 0; y < launch.grid.y; ++y) {
      for (unsigned x = 0; x < launch.grid.x; ++x) {
        BlockRun(launch, frames, {x, y, z}, work).run();
      }
    }
  }
}

}  // namespace lathe::ptx
