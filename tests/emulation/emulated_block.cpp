// See emulated_block.h.
#include "emulated_block.h"

#include <algorithm>
#include <utility>

#include "kernel_access.h"
#include "kernel_name.h"
#include "lathe/core/config.h"
#include "lathe/core/error.h"
#include "schedule.h"

#if defined(LATHE_ASAN)
#  include <sanitizer/common_interface_defs.h>
#endif
#if defined(LATHE_TSAN)
#  include <sanitizer/tsan_interface.h>
#endif

namespace lathe::emulation {

Block* g_block = nullptr;
void (*g_kernel)() = nullptr;
bool g_takes_turns = false;

namespace {

LATHE_NO_TSAN void release([[maybe_unused]] char* order) {
#if defined(LATHE_TSAN)
  __tsan_release(order);
#endif
}
LATHE_NO_TSAN void acquire([[maybe_unused]] char* order) {
#if defined(LATHE_TSAN)
  __tsan_acquire(order);
#endif
}

LATHE_NO_TSAN void to_scheduler(bool ended) {
  Fiber& fiber = g_block->fibers[g_block->current];
#if defined(LATHE_ASAN)
  __sanitizer_start_switch_fiber(ended ? nullptr : &fiber.fake_stack, g_block->scheduler_stack,
                                 g_block->scheduler_stack_bytes);
#endif
#if defined(LATHE_TSAN)
  __tsan_switch_to_fiber(g_block->scheduler_tsan, 1);
#endif
  static_cast<void>(ended);
  fiber.watched = pause_watch();
  fiber.code.leave_for(g_block->scheduler);
  resume_watch(fiber.watched);
#if defined(LATHE_ASAN)
  __sanitizer_finish_switch_fiber(fiber.fake_stack, nullptr, nullptr);
#endif
}

LATHE_NO_TSAN void resume(size_t i) {
  Block& block = *g_block;
  Fiber& fiber = block.fibers[i];
  block.current = i;
#if defined(LATHE_ASAN)
  __sanitizer_start_switch_fiber(&block.scheduler_fake_stack, fiber.stack.get(), kStackBytes);
#endif
#if defined(LATHE_TSAN)
  __tsan_switch_to_fiber(fiber.tsan, 1);
#endif
  block.scheduler.leave_for(fiber.code);
#if defined(LATHE_ASAN)
  __sanitizer_finish_switch_fiber(block.scheduler_fake_stack, nullptr, nullptr);
#endif
}

/// The barrier that this fiber is about to pass, as an address.
LATHE_NO_TSAN char* barrier_of(Waits kind) {
  Fiber& fiber = g_block->fibers[g_block->current];
  if (kind == Waits::kBlock) return &g_block->block_order.turn[fiber.block_barriers++ % 2];
  return &g_block->warp_order[g_block->current / kWarpSize].turn[fiber.warp_barriers++ % 2];
}

LATHE_NO_TSAN void wait(Waits kind, std::source_location place) {
  Fiber& fiber = g_block->fibers[g_block->current];
  char* const order = barrier_of(kind);
  fiber.waits = kind;
  fiber.place = place;
  release(order);
  to_scheduler(false);
  acquire(order);
}

LATHE_NO_TSAN void fiber_main() {
#if defined(LATHE_ASAN)
  __sanitizer_finish_switch_fiber(nullptr, &g_block->scheduler_stack,
                                  &g_block->scheduler_stack_bytes);
#endif
  Block& block = *g_block;
  acquire(&block.begin);
  try {
    (*block.body)();
  } catch (...) {
    block.error = std::current_exception();
    release(&block.begin);  // what it holds
    block.failed = true;
  }
  block.fibers[block.current].waits = Waits::kEnded;
  to_scheduler(true);
}

std::string place_text(const Fiber& fiber) {
  if (fiber.waits == Waits::kEnded) return "its end";
  return concat(fiber.place.file_name(), ":", static_cast<int64_t>(fiber.place.line()));
}

bool same_place(const Fiber& a, const Fiber& b) {
  return a.waits == b.waits && a.place.line() == b.place.line() &&
         a.place.column() == b.place.column();
}

[[noreturn]] void fail_divergence(size_t a, size_t b) {
  const Fiber* const fibers = g_block->fibers;
  LATHE_FAIL(StateError, "kernel: threads of ", block_text(), " diverge at a barrier: thread ", a,
             " waits at ", place_text(fibers[a]), ", thread ", b, " is at ", place_text(fibers[b]));
}

/// Lets the lanes of each warp that wait for each other go on. → true if any could.
bool release_warps() {
  bool released = false;
  Fiber* const fibers = g_block->fibers;
  for (size_t first = 0; first < g_block->count; first += kWarpSize) {
    const size_t end = std::min(first + kWarpSize, g_block->count);
    for (size_t i = first; i < end; ++i) {
      if (fibers[i].waits != Waits::kWarp) continue;
      const unsigned mask = fibers[i].mask;
      bool complete = true;
      for (size_t j = first; j < end; ++j) {
        if ((mask >> (j - first) & 1) != 0) complete = complete && same_place(fibers[i], fibers[j]);
      }
      if (!complete) continue;
      for (size_t j = first; j < end; ++j) {
        if ((mask >> (j - first) & 1) == 0) continue;
        const int source = fibers[j].source;
        const bool known =
            source >= 0 && source < static_cast<int>(end - first) && (mask >> source & 1) != 0;
        fibers[j].received =
            known ? fibers[first + static_cast<size_t>(source)].word : fibers[j].word;
        fibers[j].waits = Waits::kNo;
      }
      released = true;
    }
  }
  return released;
}

void release_block() {
  Fiber* const fibers = g_block->fibers;
  for (size_t i = 1; i < g_block->count; ++i) {
    if (!same_place(fibers[0], fibers[i])) fail_divergence(0, i);
  }
  for (size_t i = 0; i < g_block->count; ++i) fibers[i].waits = Waits::kNo;
}

void prepare(Fiber& fiber) {
  fiber.waits = Waits::kNo;
  fiber.block_barriers = fiber.warp_barriers = 0;
  fiber.code.begin(fiber.stack.get(), kStackBytes, fiber_main);
#if defined(LATHE_TSAN)
  if (fiber.tsan == nullptr) fiber.tsan = __tsan_create_fiber(0);
#endif
}

LATHE_NO_TSAN void make_current(Block& block) { g_block = &block; }
LATHE_NO_TSAN bool has_failed(const Block& block) { return block.failed; }
LATHE_NO_TSAN void note_failure(Block& block) { block.failed = true; }

/// Those that can run do, from a thread and in a direction that are drawn by lot.
void run_threads(Block& block) {
  const size_t first = draw(block.count);
  const bool backwards = draw(2) == 1;
  for (size_t k = 0; k < block.count; ++k) {
    const size_t i = (first + (backwards ? block.count - k : k)) % block.count;
    if (block.fibers[i].waits == Waits::kNo) resume(i);
    if (!has_failed(block)) continue;
    acquire(&block.begin);
    if (block.raise) std::exchange(block.raise, nullptr)();
    std::rethrow_exception(block.error);
  }
}

std::string coordinates(dim3 at) {
  return concat("(", int64_t{at.x}, ",", int64_t{at.y}, ",", int64_t{at.z}, ")");
}

}  // namespace

std::string block_text() {
  return concat("block ", coordinates(g_block->fibers[g_block->current].position.block), " of ",
                kernel_name(g_kernel));
}

std::string thread_text() {
  return concat("thread ", coordinates(g_block->fibers[g_block->current].position.thread), " of ",
                block_text());
}

void make_threads(Block& block, size_t count, FunctionRef<void()>& body) {
  if (block.kept.size() < count) block.kept.resize(count);
  block.fibers = block.kept.data();
  block.count = count;
  block.body = &body;
  block.error = nullptr;
  block.raise = nullptr;
  block.failed = block.underway = false;
  for (size_t i = 0; i < count; ++i) {
    std::unique_ptr<char[]>& stack = block.fibers[i].stack;
    if (!stack) stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
  }
#if defined(LATHE_TSAN)
  block.scheduler_tsan = __tsan_get_current_fiber();
#endif
}

void start_block(Block& block, dim3 index, dim3 block_size, dim3 grid_size) {
  for (size_t i = 0; i < block.count; ++i) {
    const auto t = static_cast<unsigned>(i);
    const dim3 thread(t % block_size.x, t / block_size.x % block_size.y,
                      t / (block_size.x * block_size.y));
    block.fibers[i].position = {thread, index, block_size, grid_size};
    prepare(block.fibers[i]);
  }
  block.underway = true;
  release(&block.begin);
}

bool step_block(Block& block) {
  make_current(block);
  run_threads(block);
  bool all_ended = true;
  for (size_t i = 0; i < block.count; ++i) {
    if (block.fibers[i].waits == Waits::kNo) return true;  // it stopped at an atomic operation
    all_ended = all_ended && block.fibers[i].waits == Waits::kEnded;
  }
  if (!all_ended) {
    if (!release_warps()) release_block();
    return true;
  }
  end_threads(block);
  if (const SharedLayout::Part* part = block.shared.overrun()) {
    LATHE_FAIL(StateError, "kernel: ", block_text(), " wrote beyond ", part->name, ", ",
               part->bytes, " bytes of shared memory");
  }
  block.shared.poison();
  block.shadow.clear();
  block.underway = false;
  return false;
}

// A failed launch leaves some threads in their middle, where they have released nothing, so each
// one is switched to and back with synchronisation. Those are not used again: their stacks still
// hold what they were doing.
LATHE_NO_TSAN void end_threads(Block& block) {
  for (size_t i = 0; i < block.count; ++i) {
    Fiber& fiber = block.fibers[i];
    const bool abandoned = fiber.waits != Waits::kEnded;
#if defined(LATHE_TSAN)
    if (fiber.tsan == nullptr) continue;
    __tsan_switch_to_fiber(fiber.tsan, 0);
    __tsan_switch_to_fiber(block.scheduler_tsan, 0);
    if (abandoned) {
      __tsan_destroy_fiber(fiber.tsan);
      fiber.tsan = nullptr;
    }
#endif
    if (abandoned) fiber.stack.reset();
  }
}

void stop_thread(std::function<void()> raise) {
  g_block->raise = std::move(raise);
  release(&g_block->begin);  // what it holds
  note_failure(*g_block);
  to_scheduler(false);
  __builtin_unreachable();  // nobody goes back to it
}

LATHE_NO_TSAN unsigned coordinate(dim3 Position::*which, unsigned dim3::*axis) noexcept {
  return g_block->fibers[g_block->current].position.*which.*axis;
}
LATHE_NO_TSAN int lane() noexcept { return static_cast<int>(g_block->current % kWarpSize); }

void block_barrier(std::source_location place) { wait(Waits::kBlock, place); }

LATHE_NO_TSAN uint64_t exchange(unsigned mask, uint64_t value, int source,
                                std::source_location place) {
  Fiber& fiber = g_block->fibers[g_block->current];
  fiber.mask = mask;
  fiber.word = value;
  fiber.source = source;
  wait(Waits::kWarp, place);
  return fiber.received;
}

LATHE_NO_TSAN void give_way() noexcept {
  if (g_block != nullptr && g_takes_turns) to_scheduler(false);
}

LATHE_NO_TSAN void fence() noexcept {
  note_fence();
  static char order;
  release(&order);
  acquire(&order);
}

}  // namespace lathe::emulation
