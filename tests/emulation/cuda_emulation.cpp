// The emulated grid scheduler; see cuda_emulation.h.
#include "cuda_emulation.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <vector>

#include "dependent_launch.h"
#include "emulated_block.h"
#include "lathe/core/error.h"
#include "schedule.h"

extern "C" char __executable_start;  // from the linker: where the program was loaded

namespace lathe::emulation {

namespace {

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

/// The kernels that launch_dependent() has started.
struct Dependent {
  std::mutex mutex;
  std::unordered_set<void (*)()> kernels;
};
Dependent& dependent() {
  static auto* const all = new Dependent;
  return *all;
}

/// The blocks that are underway, kept from launch to launch.
std::vector<std::unique_ptr<Block>>& resident_blocks() {
  static std::vector<std::unique_ptr<Block>> blocks;
  return blocks;
}

/// While it lives, a kernel runs.
struct GridScope {
  GridScope(void (*kernel)(), size_t shared_bytes) {
    g_kernel = kernel;
    g_must_wait = must_wait(kernel);
    lay_out_shared(shared_bytes);
  }
  ~GridScope() {  // after an error blocks are in their middle
    for (const auto& block : resident_blocks()) {
      if (!block->underway) continue;
      end_threads(*block);
      block->shared.poison_all();
      block->shadow.clear();
      block->underway = false;
    }
    g_block = nullptr;
    g_takes_turns = false;
  }
};

/// The blocks of a grid in an order drawn by lot (Fisher and Yates).
std::vector<dim3> shuffled_blocks(dim3 grid) {
  std::vector<dim3> order;
  order.reserve(size_t{grid.x} * grid.y * grid.z);
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) order.emplace_back(x, y, z);
    }
  }
  for (size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[draw(i)]);
  return order;
}

}  // namespace

void expect_wait(void (*kernel)()) {
  const std::scoped_lock lock(dependent().mutex);
  dependent().kernels.insert(kernel);
}

bool must_wait(void (*kernel)()) {
  const std::scoped_lock lock(dependent().mutex);
  return dependent().kernels.contains(kernel);
}

const std::vector<void (*)()>& launched_kernels() { return g_launched; }

void run_grid(void (*kernel)(), dim3 grid, dim3 block_size, size_t shared_bytes,
              FunctionRef<void()> body) {
  const size_t threads = size_t{block_size.x} * block_size.y * block_size.z;
  LATHE_CHECK(ValueError, threads > 0 && threads <= 1024, "kernel: ", threads,
              " threads in a block");
  LATHE_CHECK(StateError, g_block == nullptr, "kernel: launched from inside a kernel");
  const std::vector<dim3> order = shuffled_blocks(grid);
  const size_t together = std::min<size_t>(std::max(schedule().resident, 1u), order.size());
  auto& resident = resident_blocks();
  while (resident.size() < together) resident.push_back(std::make_unique<Block>());
  const GridScope scope(kernel, shared_bytes);
  note_launch(kernel);
  g_takes_turns = together > 1;
  std::vector<Block*> underway;
  size_t started = 0;
  const auto start_next = [&](Block& block) {
    start_block(block, order[started++], block_size, grid);
  };
  for (size_t i = 0; i < together; ++i) {
    make_threads(*resident[i], threads, body);
    underway.push_back(resident[i].get());
    start_next(*underway.back());
  }
  while (!underway.empty()) {
    const size_t turn = together > 1 ? draw(underway.size()) : 0;
    if (step_block(*underway[turn])) continue;
    if (started < order.size()) {
      start_next(*underway[turn]);
    } else {
      underway.erase(underway.begin() + static_cast<std::ptrdiff_t>(turn));
    }
  }
}

}  // namespace lathe::emulation
