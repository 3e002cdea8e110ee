// See emulated_block.h.
#include "emulated_block.h"

#include <algorithm>
#include <utility>

#include "dependent_launch.h"
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
bool g_must_wait = false;

LATHE_UNSEEN void after_previous_kernel() noexcept {
  if (g_block != nullptr) g_block->fibers[g_block->current].after_previous = true;
}

namespace {

LATHE_UNSEEN void release([[maybe_unused]] char* order) {
#if defined(LATHE_TSAN)
  __tsan_release(order);
#endif
}
LATHE_UNSEEN void acquire([[maybe_unused]] char* order) {
#if defined(LATHE_TSAN)
  __tsan_acquire(order);
#endif
}

LATHE_UNSEEN void to_scheduler(bool ended) {
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

LATHE_UNSEEN void resume(size_t i) {
  Block& block = *g_block;
  Fiber& fiber = block.fibers[i];
  block.current = i;
#if defined(LATHE_ASAN)
  __sanitizer_start_switch_fiber(&block.scheduler_fake_stack, fiber.stack, kStackBytes);
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
LATHE_UNSEEN char* barrier_of(Waits kind) {
  Fiber& fiber = g_block->fibers[g_block->current];
  if (kind == Waits::kBlock) return &g_block->block_order.turn[fiber.block_barriers++ % 2];
  return &g_block->warp_order[g_block->current / kWarpSize].turn[fiber.warp_barriers++ % 2];
}

LATHE_UNSEEN void wait(Waits kind, std::source_location place) {
  Fiber& fiber = g_block->fibers[g_block->current];
  char* const order = barrier_of(kind);
  fiber.waits = kind;
  fiber.place = place;
  release(order);
  to_scheduler(false);
  acquire(order);
}

LATHE_UNSEEN void fiber_main() {
#if defined(LATHE_ASAN)
  __sanitizer_finish_switch_fiber(nullptr, &g_block->scheduler_stack,
                                  &g_block->scheduler_stack_bytes);
#endif
  Block& block = *g_block;
  acquire(&block.begin);
  try {
    (*block.body)();
    LATHE_CHECK(StateError, !g_must_wait || block.fibers[block.current].after_previous,
                "kernel: ", thread_text(),
                " ends without after_previous_kernel(): launch_dependent() starts it");
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

LATHE_UNSEEN bool same_place(const Fiber& a, const Fiber& b) {
  if (a.waits != b.waits) return false;
  if (__builtin_memcmp(&a.place, &b.place, sizeof a.place) == 0) return true;
  return a.place.line() == b.place.line() && a.place.column() == b.place.column();
}

[[noreturn]] void fail_divergence(size_t a, size_t b) {
  const Fiber* const fibers = g_block->fibers;
  LATHE_FAIL(StateError, "kernel: threads of ", block_text(), " diverge at a barrier: thread ", a,
             " waits at ", place_text(fibers[a]), ", thread ", b, " is at ", place_text(fibers[b]));
}

/// Lets the lanes of each warp that wait for each other go on. → true if any could.
LATHE_UNSEEN bool release_warps() {
  bool released = false;
  Fiber* const fibers = g_block->fibers;
  for (size_t first = 0; first < g_block->count; first += kWarpSize) {
    const size_t left = g_block->count - first;
    const size_t end = first + (left < kWarpSize ? left : kWarpSize);
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

LATHE_UNSEEN void release_block() {
  Fiber* const fibers = g_block->fibers;
  for (size_t i = 1; i < g_block->count; ++i) {
    if (!same_place(fibers[0], fibers[i])) fail_divergence(0, i);
  }
  for (size_t i = 0; i < g_block->count; ++i) fibers[i].waits = Waits::kNo;
}

LATHE_UNSEEN void prepare(Fiber& fiber) {
  fiber.waits = Waits::kNo;
  fiber.block_barriers = fiber.warp_barriers = 0;
  fiber.after_previous = false;
  fiber.code.begin(fiber.stack, kStackBytes, fiber_main);
#if defined(LATHE_TSAN)
  if (fiber.tsan == nullptr) fiber.tsan = __tsan_create_fiber(0);
#endif
}

LATHE_UNSEEN void make_current(Block& block) { g_block = &block; }
LATHE_UNSEEN void note_failure(Block& block) { block.failed = true; }

[[noreturn]] void raise_failure(Block& block) {
  acquire(&block.begin);
  if (block.raise) std::exchange(block.raise, nullptr)();
  std::rethrow_exception(block.error);
}

/// Those that can run do, from a thread and in a direction that are drawn by lot.
LATHE_UNSEEN void run_threads(Block& block) {
  const size_t first = draw(block.count);
  const bool backwards = draw(2) == 1;
  size_t i = first;
  for (size_t k = 0; k < block.count; ++k) {
    if (block.fibers[i].waits == Waits::kNo) resume(i);
    if (block.failed) raise_failure(block);
    if (backwards) {
      i = (i == 0 ? block.count : i) - 1;
    } else {
      i = i + 1 == block.count ? 0 : i + 1;
    }
  }
}

enum class Progress { kRuns, kWaits, kEnded };

/// Whether a thread stopped at an atomic operation, or all wait, or all have ended.
LATHE_UNSEEN Progress progress_of(const Block& block) {
  bool all_ended = true;
  for (size_t i = 0; i < block.count; ++i) {
    if (block.fibers[i].waits == Waits::kNo) return Progress::kRuns;
    all_ended = all_ended && block.fibers[i].waits == Waits::kEnded;
  }
  return all_ended ? Progress::kEnded : Progress::kWaits;
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
    Fiber& fiber = block.fibers[i];
    if (fiber.memory) continue;
    fiber.memory = std::make_unique_for_overwrite<char[]>(kStackBytes + kStackPlaces * kPlaceBytes);
    fiber.stack = fiber.memory.get() + i % kStackPlaces * kPlaceBytes;
  }
#if defined(LATHE_TSAN)
  block.scheduler_tsan = __tsan_get_current_fiber();
#endif
}

LATHE_UNSEEN void start_block(Block& block, dim3 index, dim3 block_size, dim3 grid_size) {
  dim3 thread = index;
  thread.x = thread.y = thread.z = 0;
  for (size_t i = 0; i < block.count; ++i) {
    Position& position = block.fibers[i].position;
    position.thread = thread;
    position.block = index;
    position.block_size = block_size;
    position.grid_size = grid_size;
    prepare(block.fibers[i]);
    if (++thread.x < block_size.x) continue;
    thread.x = 0;
    if (++thread.y < block_size.y) continue;
    thread.y = 0;
    ++thread.z;
  }
  block.underway = true;
  release(&block.begin);
}

bool step_block(Block& block) {
  make_current(block);
  run_threads(block);
  const Progress progress = progress_of(block);
  if (progress == Progress::kRuns) return true;
  if (progress == Progress::kWaits) {
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
LATHE_UNSEEN void end_threads(Block& block) {
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
    if (abandoned) fiber.memory.reset();
  }
}

void stop_thread(std::function<void()> raise) {
  g_block->raise = std::move(raise);
  release(&g_block->begin);  // what it holds
  note_failure(*g_block);
  to_scheduler(false);
  __builtin_unreachable();  // nobody goes back to it
}

LATHE_UNSEEN unsigned coordinate(dim3 Position::*which, unsigned dim3::*axis) noexcept {
  return g_block->fibers[g_block->current].position.*which.*axis;
}
LATHE_UNSEEN int lane() noexcept { return static_cast<int>(g_block->current % kWarpSize); }

void block_barrier(std::source_location place) { wait(Waits::kBlock, place); }

LATHE_UNSEEN uint64_t exchange(unsigned mask, uint64_t value, int source,
                               std::source_location place) {
  Fiber& fiber = g_block->fibers[g_block->current];
  fiber.mask = mask;
  fiber.word = value;
  fiber.source = source;
  wait(Waits::kWarp, place);
  return fiber.received;
}

LATHE_UNSEEN void give_way() noexcept {
  if (g_block != nullptr && g_takes_turns) to_scheduler(false);
}

LATHE_UNSEEN void fence() noexcept {
  note_fence();
  static char order;
  release(&order);
  acquire(&order);
}

}  // namespace lathe::emulation
