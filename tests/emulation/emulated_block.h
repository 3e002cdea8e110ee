// The threads of an emulated block: fibers, their barriers, and the memory that they share. See
// cuda_emulation.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "cuda_emulation.h"
#include "shared_memory.h"
#include "shared_shadow.h"
#include "stack_switch.h"
#include "unseen.h"

namespace lathe::emulation {

inline constexpr size_t kStackBytes = 64 * 1024;
// Stacks begin at different places of a cache's sets. From equal ones, those of a block would push
// each other out of the cache at every switch.
inline constexpr size_t kStackPlaces = 16, kPlaceBytes = 9 * 64;
inline constexpr int kWarpSize = 32;

enum class Waits { kNo, kBlock, kWarp, kEnded };

struct Fiber {
  StackSwitch code;
  std::unique_ptr<char[]> memory;
  char* stack = nullptr;  // kStackBytes of it
  Position position;
  Waits waits = Waits::kNo;
  std::source_location place;
  unsigned mask = 0;
  uint64_t word = 0;  // deposited for the warp
  uint64_t received = 0;
  int source = 0;
  unsigned block_barriers = 0, warp_barriers = 0;  // reached so far
  bool watched = false;                            // see kernel_access.h; while it waits
  bool after_previous = false;                     // it called after_previous_kernel()
  void* tsan = nullptr;
  void* fake_stack = nullptr;
};

/// What ThreadSanitizer is told to be ordered: its address stands for one barrier. Two take turns,
/// because a fiber may reach the next barrier before another has left the last one.
struct Order {
  char turn[2];
};

/// One block at a time, and the next one in the same place. Kept from launch to launch, because
/// stacks and ThreadSanitizer's fibers are slow to make.
struct Block {
  std::vector<Fiber> kept;
  Fiber* fibers = nullptr;  // kept's
  size_t count = 0;
  SharedMemory shared;
  SharedShadow shadow;  // of it, where accesses are announced: kernel_access.h
  StackSwitch scheduler;
  void* scheduler_tsan = nullptr;
  void* scheduler_fake_stack = nullptr;
  const void* scheduler_stack = nullptr;
  size_t scheduler_stack_bytes = 0;
  FunctionRef<void()>* body = nullptr;
  std::exception_ptr error;
  std::function<void()> raise;  // throws what stop_thread() was given
  bool failed = false;          // one of the two is set
  bool underway = false;
  size_t current = 0;
  Order block_order;
  Order warp_order[1024 / kWarpSize];
  char begin;  // the launch happens before every thread
};

/// That runs now; null: no kernel does.
extern Block* g_block;

/// For `count` threads that run `body`.
void make_threads(Block& block, size_t count, FunctionRef<void()>& body);
/// The block at `index` of the grid begins.
void start_block(Block& block, dim3 index, dim3 block_size, dim3 grid_size);
/// Lets each thread that can run do so until it waits; then ends the barriers that all have
/// reached. → whether any thread is left.   throws: see run_grid().
bool step_block(Block& block);
/// What its threads did happens before what follows, also where they never ended.
void end_threads(Block& block);

/// The thread that runs now gets no further, and run_grid() throws what `raise` throws. Through the
/// kernel nothing is thrown: its code may be compiled without the tables that this takes. `raise`
/// runs on the stack of the host's thread: that of a fiber is too small to demangle a name.
[[noreturn]] void stop_thread(std::function<void()> raise);

/// If blocks take turns, the thread that runs now waits until it is drawn again.
void give_way() noexcept;

/// "thread (5,0,0) of block (0,2,0) of KERNEL", of the thread that runs now.
std::string thread_text();
/// "block (0,2,0) of KERNEL", of the one that runs now.
std::string block_text();
extern void (*g_kernel)();
/// Whether its threads have promised to call after_previous_kernel(): dependent_launch.h.
extern bool g_must_wait;
/// Whether other blocks are underway, to which a thread may give way.
extern bool g_takes_turns;

}  // namespace lathe::emulation
