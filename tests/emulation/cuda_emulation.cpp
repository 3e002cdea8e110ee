// The emulated block scheduler; see cuda_emulation.h.
#include "cuda_emulation.h"

#include <ucontext.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <vector>

#include "lathe/core/config.h"
#include "lathe/core/error.h"

#if defined(LATHE_ASAN)
#  include <sanitizer/common_interface_defs.h>
#endif
#if defined(LATHE_TSAN)
#  include <sanitizer/tsan_interface.h>
#endif

// The scheduler's own records are shared by fibers between which, for ThreadSanitizer, nothing is
// ordered; they are kept out of its sight, so that it sees only what kernels do. Such a function
// uses plain pointers: a container's operator[] is a function of its own, which would be seen.
// Clang's no_sanitize("thread") still counts the calls that have not returned, and the last one of a
// fiber never does.
#if defined(LATHE_TSAN) && defined(__clang__)
#  define LATHE_NO_TSAN __attribute__((disable_sanitizer_instrumentation, noinline))
#else
#  define LATHE_NO_TSAN __attribute__((no_sanitize("thread"), noinline))
#endif

extern "C" char __executable_start;  // from the linker: where the program was loaded

namespace lathe::emulation {

namespace {

constexpr size_t kStackBytes = 64 * 1024;
constexpr int kWarpSize = 32;

enum class Waits { kNo, kBlock, kWarp, kEnded };

struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack;
  Position position;
  Waits waits = Waits::kNo;
  std::source_location place;
  unsigned mask = 0;
  uint64_t word = 0;  // deposited for the warp
  uint64_t received = 0;
  int source = 0;
  unsigned block_barriers = 0, warp_barriers = 0;  // passed so far
  void* tsan = nullptr;
  void* fake_stack = nullptr;
};

/// What ThreadSanitizer is told to be ordered: its address stands for one barrier. Two take turns,
/// because a fiber may reach the next barrier before another has left the last one.
struct Order {
  char turn[2];
};

struct Block {
  Fiber* fibers = nullptr;
  size_t count = 0;
  std::vector<unsigned char> shared;
  ucontext_t scheduler;
  void* scheduler_tsan = nullptr;
  void* scheduler_fake_stack = nullptr;
  const void* scheduler_stack = nullptr;
  size_t scheduler_stack_bytes = 0;
  FunctionRef<void()>* body = nullptr;
  std::exception_ptr error;
  bool failed = false;  // `error` is set
  size_t current = 0;
  Order block_order;
  Order warp_order[1024 / kWarpSize];
  char begin;  // the launch happens before every thread
};
Block* g_block = nullptr;  // one grid at a time

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
  swapcontext(&fiber.context, &g_block->scheduler);
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
  swapcontext(&block.scheduler, &fiber.context);
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
  LATHE_FAIL(StateError, "kernel: threads of a block diverge at a barrier: thread ", a,
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
  getcontext(&fiber.context);
  fiber.context.uc_stack.ss_sp = fiber.stack.get();
  fiber.context.uc_stack.ss_size = kStackBytes;
  fiber.context.uc_link = nullptr;
  makecontext(&fiber.context, fiber_main, 0);
#if defined(LATHE_TSAN)
  if (fiber.tsan == nullptr)
    fiber.tsan =
        __tsan_create_fiber(0);  // kept from block to block and launch to launch: slow to make
#endif
}

// What the fibers did happens before what follows. A failed launch leaves some in their middle,
// where they have released nothing, so each one is switched to and back with synchronisation. Those
// are not used again: their stacks still hold what they were doing.
LATHE_NO_TSAN void finish_fibers() {
  for (size_t i = 0; i < g_block->count; ++i) {
    Fiber& fiber = g_block->fibers[i];
    const bool abandoned = fiber.waits != Waits::kEnded;
#if defined(LATHE_TSAN)
    if (fiber.tsan == nullptr) continue;
    __tsan_switch_to_fiber(fiber.tsan, 0);
    __tsan_switch_to_fiber(g_block->scheduler_tsan, 0);
    if (abandoned) {
      __tsan_destroy_fiber(fiber.tsan);
      fiber.tsan = nullptr;
    }
#endif
    if (abandoned) fiber.stack.reset();
  }
}

/// Runs all fibers of one block to their ends.
void run_block() {
  Fiber* const fibers = g_block->fibers;
  const size_t count = g_block->count;
  for (;;) {
    for (size_t i = 0; i < count; ++i) {
      if (fibers[i].waits == Waits::kNo) resume(i);
      if (g_block->failed) {
        finish_fibers();
        std::rethrow_exception(g_block->error);
      }
    }
    bool all_ended = true;
    for (size_t i = 0; i < count; ++i) all_ended = all_ended && fibers[i].waits == Waits::kEnded;
    if (all_ended) return;
    if (!release_warps()) release_block();
  }
}

std::vector<void (*)()> g_launched;

/// For tests/check_kernels.py, which knows the names that belong to the addresses.
void write_launched() {
  const char* path = std::getenv("LATHE_LAUNCHED_KERNELS");
  std::FILE* file = path == nullptr ? nullptr : std::fopen(path, "w");
  if (file == nullptr) return;
  for (void (*kernel)() : g_launched) {
    std::fprintf(file, "%zx\n",
                 static_cast<size_t>(reinterpret_cast<char*>(kernel) - &__executable_start));
  }
  std::fclose(file);
}

void note_launch(void (*kernel)()) {
  if (std::ranges::find(g_launched, kernel) != g_launched.end()) return;
  if (g_launched.empty()) std::atexit(write_launched);
  g_launched.push_back(kernel);
}

struct GridScope {
  explicit GridScope(Block& block) { g_block = &block; }
  ~GridScope() {
    finish_fibers();
    g_block = nullptr;
  }
};

}  // namespace

LATHE_NO_TSAN const Position& position() noexcept {
  return g_block->fibers[g_block->current].position;
}
LATHE_NO_TSAN void* dynamic_shared() noexcept { return g_block->shared.data(); }
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

const std::vector<void (*)()>& launched_kernels() { return g_launched; }

void run_grid(void (*kernel)(), dim3 grid, dim3 block_size, size_t shared_bytes,
              FunctionRef<void()> body) {
  const size_t threads = size_t{block_size.x} * block_size.y * block_size.z;
  LATHE_CHECK(ValueError, threads > 0 && threads <= 1024, "kernel: ", threads,
              " threads in a block");
  LATHE_CHECK(StateError, g_block == nullptr, "kernel: launched from inside a kernel");
  static std::vector<Fiber> fibers;  // kept, with their stacks, from launch to launch
  if (fibers.size() < threads) fibers.resize(threads);
  Block block{.fibers = fibers.data(), .count = threads};
  const GridScope scope(block);
  note_launch(kernel);
  block.body = &body;
  for (Fiber& fiber : fibers) {
    if (!fiber.stack) fiber.stack = std::make_unique_for_overwrite<char[]>(kStackBytes);
  }
#if defined(LATHE_TSAN)
  block.scheduler_tsan = __tsan_get_current_fiber();
#endif
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        block.shared.assign(shared_bytes, 0xA5);  // shared memory is not zero on a GPU either
        for (size_t i = 0; i < threads; ++i) {
          Fiber& fiber = fibers[i];
          const auto t = static_cast<unsigned>(i);
          fiber.position = {dim3(t % block_size.x, t / block_size.x % block_size.y,
                                 t / (block_size.x * block_size.y)),
                            dim3(x, y, z), block_size, grid};
          prepare(fiber);
        }
        release(&block.begin);
        run_block();
        finish_fibers();
      }
    }
  }
}

}  // namespace lathe::emulation
